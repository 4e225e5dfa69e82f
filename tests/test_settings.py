"""What makes a study what it is: kept with it, compared when it goes on, and said of the data before it starts."""

from dataclasses import replace

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.storages import InMemoryStorage
from prepared import prepared
from studies import SETTINGS, SPACE, ledger_in, ledger_of, proposal

from mmbsgd.portions import scale_gamma
from search_spaces import load, parse
from workflows.data.known import KNOWN
from workflows.errors import StudyError
from workflows.records import Bar, TrialResult
from workflows.study.facts import check_splits, default_space, facts_of
from workflows.study.job import Job
from workflows.study.settings import Settings, agree, settings_of

OTHERS = {
    "metric": "f1",
    "cost": "cpu",
    "third": "size",
    "folds": 5,
    "repeats": 2,
    "trace": True,
    "seed": 6,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("facts")


@pytest.fixture(scope="module")
def split(folder):
    return prepared(folder / "split", rows=400, validation_size=0.25)


@pytest.fixture(scope="module")
def folded(folder):
    return prepared(folder / "folded", rows=400, folds=4)


def test_settings_are_kept_with_the_study(tmp_path):
    path = tmp_path / "one.journal"
    with ledger_in(path) as ledger:
        agree(ledger, SETTINGS, SPACE, "one")
    with ledger_in(path) as ledger:
        agree(ledger, SETTINGS, SPACE, "one")
        agree(ledger, replace(SETTINGS, data="the same data by another name"), SPACE, "one")
        assert settings_of(ledger.notes(), "one") == (SETTINGS, SPACE)


@pytest.mark.parametrize("name", OTHERS)
def test_a_study_begun_with_other_settings_is_refused_by_name(name):
    ledger = ledger_of(InMemoryStorage())
    agree(ledger, SETTINGS, SPACE, "one")
    before, now = getattr(SETTINGS, name), OTHERS[name]
    with pytest.raises(StudyError, match=f"'one' was begun otherwise: with {name} {before} instead of {now}; ask"):
        agree(ledger, replace(SETTINGS, **{name: now}), SPACE, "one")
    assert settings_of(ledger.notes(), "one")[0] == SETTINGS, "nothing was changed"


def test_every_setting_is_compared_or_has_its_reason_not_to():
    assert {*OTHERS, "fingerprint", "data", "space", "splits"} == set(Settings.__dataclass_fields__)


def test_the_same_ranges_by_another_name_are_the_same_but_a_function_is_known_by_its_name_alone():
    ledger = ledger_of(InMemoryStorage())
    agree(ledger, SETTINGS, SPACE, "one")
    agree(ledger, replace(SETTINGS, space="./mine.toml"), SPACE, "one")
    other = ledger_of(InMemoryStorage())
    agree(other, replace(SETTINGS, space="narrow"), {}, "two")
    with pytest.raises(StudyError, match="with space narrow instead of wide"):
        agree(other, replace(SETTINGS, space="wide"), {}, "two")


def test_other_data_and_other_ranges_are_refused_in_words():
    ledger = ledger_of(InMemoryStorage())
    agree(ledger, SETTINGS, SPACE, "one")
    wider = SPACE | {"C": FloatDistribution(0.01, 1000.0, log=True)}
    with pytest.raises(StudyError, match=r"begun otherwise: on other data, with other ranges in its search space; "):
        agree(ledger, replace(SETTINGS, fingerprint="bad"), wider, "one")
    with pytest.raises(StudyError, match="other ranges"):
        agree(ledger, SETTINGS, SPACE | {"engine": CategoricalDistribution(["paper"])}, "one")


def test_other_splits_are_refused_in_words():
    ledger = ledger_of(InMemoryStorage())
    agree(ledger, SETTINGS, SPACE, "one")
    with pytest.raises(StudyError, match="begun otherwise: with other splits to train and score on; ask"):
        agree(ledger, replace(SETTINGS, splits="train+validation:test"), SPACE, "one")


def test_a_study_from_before_there_were_splits_and_traces_goes_on():
    ledger = ledger_of(InMemoryStorage())
    agree(ledger, SETTINGS, SPACE, "one")
    kept = {name: value for name, value in ledger.notes()["settings"].items() if name not in ("splits", "trace")}
    ledger.note("settings", kept)
    agree(ledger, SETTINGS, SPACE, "one")
    with pytest.raises(StudyError, match="other splits"):
        agree(ledger, replace(SETTINGS, splits="train:test"), SPACE, "one")


@pytest.mark.parametrize(
    ("splits", "rounds", "said"),
    [
        ("", ((("train",), ("validation",)),), "on validation rows"),
        ("train+validation:test", ((("train", "validation"), ("test",)),), "on test rows"),
        (
            "fold-0:fold-1,fold-1:fold-0",
            ((("fold-0",), ("fold-1",)), (("fold-1",), ("fold-0",))),
            "on fold-1 and fold-0 rows",
        ),
    ],
)
def test_splits_say_what_is_trained_on_and_what_is_scored_on(splits, rounds, said):
    settings = replace(SETTINGS, splits=splits)
    assert settings.rounds_of_splits == rounds
    assert settings.scored_on == said
    assert settings.read == {name for each in rounds for side in each for name in side}


@pytest.mark.parametrize("splits", ["train", "train:", ":test", "train:test,", "train:validation:test", "a b:c"])
def test_splits_that_make_no_sense_are_refused(splits):
    with pytest.raises(StudyError, match="write 'train"):
        Job("demo", splits=splits)
    with pytest.raises(StudyError, match="no folds beside it"):
        Job("demo", splits="train:test", folds=2)


def test_a_study_of_somebody_else_is_refused():
    with pytest.raises(StudyError, match="'theirs' was not made by mmbsgd tune"):
        settings_of({"colour": 1}, "theirs")


def test_what_a_later_version_kept_beside_is_no_trouble():
    ledger = ledger_of(InMemoryStorage())
    agree(ledger, SETTINGS, SPACE, "one")
    ledger.note("settings", ledger.notes()["settings"] | {"of a later version": 1})
    assert settings_of(ledger.notes(), "one") == (SETTINGS, SPACE)


@pytest.mark.parametrize("cost", ["cpu", "wall", "work"])
@pytest.mark.parametrize("third", ["none", "size", "latency"])
def test_objectives_names_and_directions_belong_together(cost, third):
    settings = replace(SETTINGS, cost=cost, third=third)
    result = TrialResult(
        0,
        "complete",
        score=0.5,
        costs={"cpu": 1.0, "wall": 2.0, "work": 3.0},
        counters={"size": 4.0, "latency": 5.0},
    )
    values = settings.objectives(result)
    expected = {"accuracy": 0.5, "cpu": 1.0, "wall": 2.0, "work": 3.0, "size": 4.0, "latency": 5.0}
    assert values == tuple(expected[name] for name in settings.names)
    assert settings.directions == ["maximize", *["minimize"] * (len(values) - 1)]
    assert len(values) == (2 if third == "none" else 3)
    assert settings.names[:2] == ["accuracy", cost]


def test_a_spec_has_everything_of_the_settings():
    settings, bar = replace(SETTINGS, metric="f1", cost="wall", repeats=3, folds=3), Bar(shortest=9.0)
    spec = settings.spec(7, proposal(C=2.5), bar)
    assert spec.parameters["C"] == 2.5
    assert (spec.number, spec.metric, spec.cost, spec.repeats, spec.bar) == (7, "f1", "wall", 3, bar)
    assert spec.seed == settings.seed_of(7, 0)
    assert spec.folds == (
        (("fold-1", "fold-2"), ("fold-0",)),
        (("fold-0", "fold-2"), ("fold-1",)),
        (("fold-0", "fold-1"), ("fold-2",)),
    )
    assert SETTINGS.spec(0, proposal(), None).folds == ((("train",), ("validation",)),)


def test_every_run_of_every_trial_of_every_study_has_a_seed_of_its_own():
    seeds = [
        replace(SETTINGS, seed=seed).seed_of(origin, run)
        for seed in range(5)
        for origin in range(20)
        for run in range(6)
    ]
    assert len(set(seeds)) == len(seeds)
    assert SETTINGS.seed_of(3, 2) == SETTINGS.seed_of(3, 2)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_set_of_the_paper_has_a_space_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [default_space(name) for name in KNOWN] == list(KNOWN)
    assert default_space("demo") == default_space("some/folder") == "default"
    (tmp_path / "adult").write_text("a file of that name is somebody's own data")
    assert default_space("adult") == "default"


def test_facts_are_those_of_the_rows_that_are_trained_on(split, folded):
    facts = facts_of(load("default"), "demo", split, SETTINGS)
    assert facts == {"rows": split.split("train").rows, "scale": scale_gamma(split.split("train"))}
    facts = facts_of(load("default"), "demo", folded, replace(SETTINGS, folds=4))
    trained_on = folded.split("fold-1", "fold-2", "fold-3")
    assert facts == {"rows": trained_on.rows, "scale": scale_gamma(trained_on)}


def test_a_pass_over_the_data_is_made_only_if_the_space_asks_for_it(split, monkeypatch):
    def no_pass(portions):
        raise AssertionError

    monkeypatch.setattr("workflows.study.facts.scale_gamma", no_pass)
    absolute = parse("mine.toml", "C = 1.0\ngamma = 0.5\nbudget = 10\nmergees = 2\n")
    assert facts_of(absolute, "demo", split, SETTINGS) == {"rows": split.split("train").rows}
    with pytest.raises(AssertionError):
        facts_of(load("default"), "demo", split, SETTINGS)


@pytest.mark.parametrize("name", KNOWN)
def test_a_set_of_the_paper_brings_what_the_paper_says_of_it(split, name):
    facts = facts_of(load("paper-grid"), f"some/folder/{name}", split, SETTINGS)
    known = KNOWN[name]
    assert facts["paper-C"] == known.c
    assert facts["paper-gamma"] == known.gamma
    assert facts["support-vectors"] == known.support_vectors
    assert load("paper-grid").needs() <= set(facts)


def test_splits_that_are_there_are_no_trouble(split, folded):
    check_splits("demo", split, SETTINGS)
    check_splits("demo", folded, replace(SETTINGS, folds=4))


@pytest.mark.parametrize(
    ("kind", "folds", "message"),
    [
        ("split", 4, r"demo has no fold-0, fold-1, fold-2, fold-3 to score on; it has: .*Prepare it with --folds 4$"),
        (
            "folded",
            0,
            r"demo has no train, validation to score on; .*with --validation-size, or tune with --folds 4$",
        ),
        ("folded", 5, r"demo has no fold-4 to score on; .*Prepare it with --folds 5"),
        ("folded", 3, r"demo was prepared with 4 folds: tune with --folds 4"),
    ],
)
def test_splits_that_are_missing_are_named_with_what_to_do(split, folded, kind, folds, message):
    with pytest.raises(StudyError, match=message):
        check_splits("demo", {"split": split, "folded": folded}[kind], replace(SETTINGS, folds=folds))
