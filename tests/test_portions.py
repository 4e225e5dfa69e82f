"""Training in portions: one portion is `fit` bit for bit, several are visited once per epoch in a seeded order."""

import numpy as np
import pytest
from builders import blobs
from prepared import outcome
from scipy.sparse import csr_array
from sklearn.utils._param_validation import InvalidParameterError

from mmbsgd import InputError, MultiMergeSVC
from mmbsgd.portions import Weighted, Whole, scale_gamma
from mmbsgd.rows import rows_of
from mmbsgd.training import Trainer


class Pieces:
    """Rows in several portions; remembers what was visited."""

    def __init__(self, matrix, signs, cuts, classes=(-1, 1)):
        self.parts = [
            (rows_of(matrix[begin:end]), signs[begin:end])
            for begin, end in zip([0, *cuts], [*cuts, len(signs)], strict=True)
        ]
        self.width, self.classes = matrix.shape[1], classes
        self.counts = int(np.sum(signs < 0)), int(np.sum(signs > 0))
        self.visits = []

    def __len__(self):
        return len(self.parts)

    def visit(self, order, visitor):
        self.visits.append(list(order))
        for number in order:
            visitor(*self.parts[number])


WEIGHTS = [None, "balanced", {-1: 1.0, 1: 3.0}, {-1: 0.25, 1: 0.5}, {1: 7.0}, {-1: 1e-3, 1: 1e3}]


@pytest.mark.parametrize("class_weight", WEIGHTS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.4])
def test_one_portion_gives_the_same_bits_as_fit(class_weight, sparse, gamma):
    matrix, signs = blobs(1, 60)
    matrix[matrix < 0] = 0.0
    matrix = csr_array(matrix) if sparse else matrix
    options = {"budget": 8, "epochs": 2, "gamma": gamma, "class_weight": class_weight, "random_state": 3}
    whole = MultiMergeSVC(**options).fit(matrix, signs.astype(int))
    portions = MultiMergeSVC(**options).fit_portions(Pieces(matrix, signs, []))
    assert outcome(portions) == outcome(whole)
    assert portions.classes_.tolist() == whole.classes_.tolist()
    assert portions.n_features_in_ == whole.n_features_in_
    assert portions.training_.steps == whole.training_.steps == 120
    assert portions.training_.margin_violations == whole.training_.margin_violations


@pytest.mark.parametrize("classes", [(0, 1), ("no", "yes"), (False, True), (3, 7)])
def test_labels_are_those_of_the_portions(classes):
    matrix, signs = blobs(2, 40)
    labels = np.asarray(classes)[(signs > 0).astype(int)]
    options = {"budget": 8, "random_state": 0, "class_weight": {classes[0]: 2.0, classes[1]: 1.0}}
    portions = MultiMergeSVC(**options).fit_portions(Pieces(matrix, signs, [], classes))
    whole = MultiMergeSVC(**options).fit(matrix, labels)
    assert outcome(portions) == outcome(whole)
    assert portions.predict(matrix).tolist() == whole.predict(matrix).tolist()
    assert set(portions.predict(matrix).tolist()) <= set(classes)


def test_every_epoch_visits_every_portion_once_in_a_seeded_order():
    matrix, signs = blobs(3, 60)

    def visits(seed, epochs=6):
        pieces = Pieces(matrix, signs, [10, 20, 30, 40, 50])
        estimator = MultiMergeSVC(budget=5, epochs=epochs, gamma=0.5, random_state=seed).fit_portions(pieces)
        assert estimator.training_.steps == 60 * epochs
        assert pieces.visits.pop() == list(range(6)), "the bias is found in one more pass"
        assert len(pieces.visits) == epochs
        assert all(sorted(order) == list(range(6)) for order in pieces.visits)
        return pieces.visits

    first = visits(1)
    assert len({tuple(order) for order in first}) > 1
    assert visits(1) == first
    assert visits(2) != first
    assert visits(1, epochs=3) == first[:3]


def test_rows_within_a_portion_are_visited_once_in_an_order_that_changes():
    matrix, signs = blobs(4, 30)
    pieces = Pieces(matrix, signs, [10, 20])
    trainer = Trainer(width=3, regularization=0.1, gamma=0.5, budget=5, seed=1)
    orders = []
    visit = trainer._visit

    def watched(rows, weights, order):
        if len(order):
            orders.append(order.tolist())
        visit(rows, weights, order)

    trainer._visit = watched
    for _ in range(2):
        trainer.epoch(pieces)
    assert len(orders) == 6
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(order) for order in orders}) == 6


def test_seeds_give_the_same_bits_again_and_others_others():
    matrix, signs = blobs(5, 60)
    first, again, other = (
        outcome(MultiMergeSVC(budget=6, epochs=2, random_state=seed).fit_portions(Pieces(matrix, signs, [25, 40])))
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("gamma", ["scale", 0.5])
def test_several_portions_learn_what_one_learns(gamma):
    matrix, signs = blobs(6, 300, overlap=0.8)
    train, test = slice(200), slice(200, 300)
    options = {"budget": 20, "epochs": 3, "gamma": gamma, "random_state": 0}
    whole = MultiMergeSVC(**options).fit(matrix[train], signs[train])
    pieces = MultiMergeSVC(**options).fit_portions(Pieces(matrix[train], signs[train], [50, 100, 150]))
    assert whole.score(matrix[test], signs[test]) > 0.8
    assert pieces.score(matrix[test], signs[test]) > whole.score(matrix[test], signs[test]) - 0.06
    assert pieces.gamma_ == pytest.approx(whole.gamma_, rel=1e-12)


def test_the_scale_of_gamma_is_that_of_all_rows_together():
    matrix, signs = blobs(7, 50)
    expected = 1.0 / (3 * matrix.astype(np.float64).var())
    for cuts in ([], [10], [1, 2, 49]):
        assert scale_gamma(Pieces(matrix, signs, cuts)) == pytest.approx(expected, rel=1e-9)


def test_lambda_counts_the_rows_of_all_portions():
    matrix, signs = blobs(8, 40)
    seen = MultiMergeSVC(C=2.0, budget=5).fit_portions(Pieces(matrix, signs, [10, 30]))
    assert seen._trainer.regularization == pytest.approx(1 / (40 * 2.0))


def test_weights_of_classes_multiply_the_signs():
    matrix, signs = blobs(9, 20)
    found = []
    weighted = Weighted(Pieces(matrix, signs, [5, 12]), (0.25, 2.0))
    weighted.visit([2, 0, 1], lambda rows, weights: found.append(weights))
    expected = np.where(signs > 0, 2.0, -0.25)
    assert np.concatenate([found[1], found[2], found[0]]).tolist() == expected.tolist()
    assert all(weights.dtype == np.float32 for weights in found)
    assert (weighted.width, weighted.classes, len(weighted)) == (3, (-1, 1), 3)
    assert weighted.counts == (int(np.sum(signs < 0)), int(np.sum(signs > 0)))


def test_all_rows_can_be_one_portion():
    matrix, signs = blobs(10, 20)
    whole = Whole(rows_of(matrix), signs, ("no", "yes"))
    seen = []
    whole.visit([0, 0], lambda rows, weights: seen.append((rows.values.tobytes(), weights.tobytes())))
    assert seen == [(matrix.tobytes(), signs.tobytes())] * 2
    assert whole.counts == (int(np.sum(signs < 0)), int(np.sum(signs > 0)))
    assert len(whole) == 1


def test_portions_can_be_trained_on_again():
    matrix, signs = blobs(11, 40)
    estimator = MultiMergeSVC(budget=5, random_state=1)
    pieces = Pieces(matrix, signs, [20])
    first = outcome(estimator.fit_portions(pieces))
    assert outcome(estimator.fit_portions(pieces)) == first


@pytest.mark.parametrize("weights", [{-1: -1.0}, {1: np.nan}, {1: np.inf}, {-1: 0.0, 1: 0.0}, {-1: 1e200}])
def test_weights_that_make_no_sense_are_refused(weights):
    matrix, signs = blobs(12, 20)
    with pytest.raises(InputError, match="weight"):
        MultiMergeSVC(class_weight=weights).fit_portions(Pieces(matrix, signs, [10]))


def test_weights_for_classes_that_there_are_not_are_refused_as_fit_refuses_them():
    matrix, signs = blobs(12, 20)
    weights = {"typo": 2.0}
    with pytest.raises(ValueError, match="class_weight"):
        MultiMergeSVC(class_weight=weights).fit(matrix, signs)
    with pytest.raises(ValueError, match="class_weight"):
        MultiMergeSVC(class_weight=weights).fit_portions(Pieces(matrix, signs, [10]))


def test_portions_of_one_class_are_refused_as_fit_refuses_them():
    matrix, _ = blobs(12, 20)
    ones = np.ones(20, np.float32)
    with pytest.raises(InputError, match="only one class"):
        MultiMergeSVC().fit(matrix, ones)
    with pytest.raises(InputError, match="only one class"):
        MultiMergeSVC().fit_portions(Pieces(matrix, ones, [10]))


def test_parameters_are_checked():
    matrix, signs = blobs(12, 20)
    with pytest.raises(InvalidParameterError, match="mergees"):
        MultiMergeSVC(mergees=1).fit_portions(Pieces(matrix, signs, []))
