"""MultiMergeSVC: the scikit-learn face of the solver."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mmbsgd.errors import InputError
from mmbsgd.maintenance import STRATEGIES
from mmbsgd.model import BudgetedModel
from mmbsgd.portions import Portions, Weighted, Whole, scale_gamma
from mmbsgd.rows import checked, rows_of
from mmbsgd.training import CHUNK, ENGINES, Trainer, Training, Watch

LARGEST_WEIGHT = 1e100
BIASES = ("calibrated", "optimal", "none")
POLISH = 7
"""From what validation rows of the paper's sets said: more passes bring the objective nearer to its optimum, and no
accuracy."""

# Float32, C-ordered or CSR: the very same memory where the input is already so.
_FORM: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float32, "order": "C"}


class _Count(Interval):  # type: ignore[misc]
    """Integers from a least one on. True is none, whatever Python says."""

    def __init__(self, least: int) -> None:
        super().__init__(Integral, least, None, closed="left")

    def is_satisfied_by(self, value: Any) -> bool:
        return not isinstance(value, bool | np.bool_) and super().is_satisfied_by(value)


class MultiMergeSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A Gaussian-kernel SVM with at most `budget` support vectors, trained by multi-merge BSGD.

    Parameters
    ----------
    C : weight of the losses; lambda = 1 / (n C).
    gamma : kernel width, exp(-gamma ||x - x'||^2); "scale" is 1 / (d * X.var()), "auto" 1 / d.
    budget : B, the largest number of support vectors.
    mergees : M, how many vectors one merge takes; 2 is plain BSGD. The paper advises 3 to 5.
    maintenance : "cascade" (MM-BSGD), "gradient" (MM-GD), "projection" or "removal".
    epochs : passes over the data, each in a fresh random order.
    engine : "fast", or "paper" for the cost that the paper analyses.
    bias : "calibrated" (the threshold of least training error), "optimal" (of least hinge loss) or "none".
    polish : how many passes may be spent, after the epochs, on the best coefficients for the support vectors that SGD
        has found: n passes are n - 1 of Newton's steps. It ends sooner within 0.1% of the optimum.
        0 is the paper's method. Time grows with budget^2 per row near the margin, and budget^3 per pass; kernel values
        take 256 MB at most. `partial_fit` does not polish.
    across_signs : merge vectors of opposite signs too.
    class_weight : dict, "balanced" or None.
    random_state : seed or RandomState; the same seed gives the same bits.

    After `fit`: `support_vectors_`, `dual_coef_`, `intercept_`, `classes_`, `n_features_in_`, `model_` (a
    BudgetedModel to save) and `training_` (a report).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "budget": [_Count(1)],
        "mergees": [_Count(2)],
        "maintenance": [StrOptions(set(STRATEGIES))],
        "epochs": [_Count(1)],
        "engine": [StrOptions(set(ENGINES))],
        "bias": [StrOptions(set(BIASES))],
        "polish": [_Count(0)],
        "across_signs": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float = 1.0,
        gamma: float | str = "scale",
        budget: int = 100,
        mergees: int = 3,
        maintenance: str = "cascade",
        epochs: int = 1,
        engine: str = "fast",
        bias: str = "calibrated",
        polish: int = POLISH,
        across_signs: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.budget = budget
        self.mergees = mergees
        self.maintenance = maintenance
        self.epochs = epochs
        self.engine = engine
        self.bias = bias
        self.polish = polish
        self.across_signs = across_signs
        self.class_weight = class_weight
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Trains from scratch: `epochs` passes, then polishing, then the bias."""
        self._validate_params()
        matrix, labels = self._labelled(X, y, reset=True)
        classes = self._two_classes(np.unique(labels))
        weights, unit = self._signed_weights(matrix, labels, sample_weight, classes)
        whole = Whole(rows_of(matrix), weights, tuple(classes))
        self._start(whole, len(labels), unit)
        return self._train(whole)

    def fit_portions(self, portions: Portions, watch: Watch | None = None, every: int = CHUNK) -> Self:
        """Trains from scratch on rows that come in portions, for example those of `workflows.data.PreparedData`.

        One portion gives the same bits as `fit` on its rows. `watch` sees the trainer after `every` steps and
        after every pass of polishing; what it does is not timed, and an exception that it raises ends the training.
        """
        self._validate_params()
        self.n_features_in_ = portions.width
        classes = np.asarray(portions.classes)
        self._two_classes(classes[np.asarray(portions.counts) > 0])
        unit = 1.0
        if self.class_weight is not None:
            weights = self._weights_by_class(classes, portions.counts)
            unit = _largest(weights)
            portions = Weighted(portions, (weights[0] / unit, weights[1] / unit))
        self._start(portions, sum(portions.counts), unit)
        self._trainer.watch, self._trainer.every = watch, every
        try:
            return self._train(portions)
        finally:
            self._trainer.watch = None

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        n_total: int | None = None,
    ) -> Self:
        """One pass over a portion of the data; the first call needs `classes` unless its rows have both.

        The step size needs lambda = 1 / (n C), where n counts the rows of the whole data set: `n_total` says it in
        the first call. Without it the first portion is taken for the whole, so that k calls with the same data are
        `fit` with k epochs. The bias is calibrated on the latest portion that has rows of both classes. Nothing is
        polished: after a `fit` that did, it goes on from the coefficients that SGD had found before.
        Parameters are read at the first call; later changes wait for the next `fit`.
        """
        self._validate_params()
        first = not hasattr(self, "_trainer")
        matrix, labels = self._labelled(X, y, reset=first)
        if self.class_weight == "balanced":
            raise InputError("class_weight='balanced' needs all rows at once: pass a dict of weights to partial_fit")
        if first:
            known = self._two_classes(np.unique(labels if classes is None else np.asarray(classes)))
        else:
            known = self.classes_
            if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), known):
                raise InputError(f"classes={classes!r} differ from those of the first call, {known!r}")
        if n_total is not None and (not isinstance(n_total, Integral) or n_total < 1):
            raise InputError(f"n_total={n_total!r} must count the rows of the whole data set")
        weights, unit = self._signed_weights(matrix, labels, sample_weight, known)
        if not first:
            weights = weights * np.float32(unit / self._trainer.unit)
        portion = Whole(rows_of(matrix), weights, tuple(known))
        if first:
            self._start(portion, len(labels) if n_total is None else int(n_total), unit)
        self._trainer.epoch(portion)
        return self._finish(portion)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """f(x) of every row; positive for classes_[1]."""
        check_is_fitted(self)
        return self.model_.decision_function(validate_data(self, X, reset=False, **_FORM))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(np.intp)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags

    def _labelled(self, X: Any, y: ArrayLike, *, reset: bool) -> tuple[Any, NDArray[Any]]:
        matrix, labels = validate_data(self, X, y, reset=reset, **_FORM)
        check_classification_targets(labels)
        return checked(matrix), labels

    def _two_classes(self, classes: NDArray[Any]) -> NDArray[Any]:
        if len(classes) > 2:
            raise InputError(
                f"Only binary classification is supported. y has {len(classes)} classes ({_listed(classes)}): keep the "
                "rows of two of them, or wrap the estimator in sklearn.multiclass.OneVsRestClassifier"
            )
        if len(classes) < 2:
            raise InputError(
                f"Classifier can't train when only one class is present: y holds {_listed(classes)} and nothing else; "
                "pass rows of two classes"
            )
        return classes

    def _signed_weights(
        self, matrix: Any, labels: NDArray[Any], sample_weight: ArrayLike | None, classes: NDArray[Any]
    ) -> tuple[NDArray[np.float32], float]:
        """w_i y_i as shares of the largest weight, and that weight."""
        positive = labels == classes[1]
        if not np.all(positive | (labels == classes[0])):
            unknown = np.setdiff1d(labels, classes)
            raise InputError(f"y holds {_listed(unknown)}, which is not among the classes {_listed(classes)}")
        weights = _check_sample_weight(sample_weight, matrix, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            by_class = compute_class_weight(self.class_weight, classes=classes, y=labels, sample_weight=None)
            self._check_class_weights(by_class)
            weights = weights * np.where(positive, by_class[1], by_class[0])
        largest = _largest(weights)
        return (np.where(positive, weights, -weights) / largest).astype(np.float32), largest

    def _weights_by_class(self, classes: NDArray[Any], counts: tuple[int, int]) -> NDArray[np.float64]:
        """As scikit-learn's compute_class_weight, from the counts alone."""
        if isinstance(self.class_weight, dict):
            if unknown := [label for label in self.class_weight if label not in classes.tolist()]:
                said = _listed(np.asarray(unknown))
                raise InputError(f"class_weight names {said}, but the classes are {_listed(classes)}")
            weights = np.array([self.class_weight.get(label, 1.0) for label in classes.tolist()], np.float64)
        else:
            weights = sum(counts) / (2.0 * np.asarray(counts, np.float64))
        self._check_class_weights(weights)
        return weights

    def _check_class_weights(self, by_class: NDArray[np.float64]) -> None:
        if not (np.isfinite(by_class).all() and (by_class >= 0).all()):
            raise InputError(f"class_weight={self.class_weight!r} must hold finite weights of zero or more")

    def _start(self, portions: Portions, total: int, unit: float) -> None:
        self._trainer = Trainer(
            width=portions.width,
            regularization=1.0 / (total * self.C),
            gamma=self._width_of_kernel(portions),
            budget=int(self.budget),
            mergees=int(self.mergees),
            maintenance=self.maintenance,
            across_signs=bool(self.across_signs),
            engine=self.engine,
            unit=unit,
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
        )
        self.classes_ = np.asarray(portions.classes)

    def _train(self, portions: Portions) -> Self:
        for _ in range(self.epochs):
            self._trainer.epoch(portions)
        return self._finish(portions, polish=int(self.polish))

    def _finish(self, portions: Portions, polish: int = 0) -> Self:
        if polish:
            self._trainer.polish(portions, polish, self.bias)
        elif self.bias != "none":
            self._trainer.calibrate(portions, self.bias)
        model = self._trainer.model()
        self.model_ = BudgetedModel(
            model.support_vectors, model.coefficients, model.bias, model.gamma, tuple(self.classes_)
        )
        self.support_vectors_ = self.model_.support_vectors
        self.dual_coef_ = self.model_.coefficients[None, :]
        self.intercept_ = np.array([self.model_.bias])
        self.gamma_ = self.model_.gamma
        self.training_: Training = self._trainer.report()
        return self

    def _width_of_kernel(self, portions: Portions) -> float:
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        if self.gamma == "auto":
            return 1.0 / float(portions.width)
        return scale_gamma(portions)


def _largest(weights: ArrayLike) -> float:
    largest = float(np.max(weights))
    if not 0.0 < largest < LARGEST_WEIGHT:
        raise InputError(f"the largest weight is {largest:g}; it must be above 0 and below {LARGEST_WEIGHT:g}")
    return largest


def _listed(values: NDArray[Any]) -> str:
    shown = ", ".join(repr(value.item() if isinstance(value, np.generic) else value) for value in values[:10])
    return shown + (", …" if len(values) > 10 else "")
