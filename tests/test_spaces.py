"""Search spaces: shipped ones fit their data, samples lie where the TOML says, and a mistake is told as such."""

import json
import math
from inspect import signature

import numpy as np
import optuna
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from mmbsgd import MultiMergeSVC
from search_spaces import SpaceError, load, parse, shipped
from workflows.data.known import KNOWN
from workflows.study.tuning import USUAL

BASE = {"C": 1.0, "gamma": 0.5, "budget": 100, "mergees": 2}
FACTS = {"rows": 1000, "scale": 0.5, "support-vectors": 300, "paper-C": 32.0, "paper-gamma": 0.008}
WORDS = {
    "maintenance": ["cascade", "gradient", "projection", "removal"],
    "engine": ["fast", "paper"],
    "bias": ["calibrated", "optimal", "none"],
}


def toml(parameters):
    """TOML with one line per parameter; numbers, words and lists are written as in JSON."""

    def written(value):
        if isinstance(value, dict):
            return "{ " + ", ".join(f"{key} = {json.dumps(inner)}" for key, inner in value.items()) + " }"
        return json.dumps(value)

    return "\n".join(f"{name} = {written(value)}" for name, value in parameters.items())


def space(**parameters):
    return parse("mine.toml", toml(BASE | parameters))


def only(name, given, facts=FACTS):
    """The distribution of one parameter in a space of fixed others."""
    return space(**{name: given}).distributions(facts)[name]


def sampled(distributions, seed):
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)).ask(distributions).params


def facts_of(known):
    return {
        "rows": known.rows,
        "scale": 4.0 / known.width,
        "support-vectors": known.rows // 3,
        "paper-C": known.c,
        "paper-gamma": known.gamma,
    }


def test_these_spaces_are_shipped():
    assert shipped() == sorted(["default", "paper-grid", *KNOWN])


@pytest.mark.parametrize("data", KNOWN)
@pytest.mark.parametrize("name", ["default", "paper-grid", "its own"])
def test_every_shipped_space_gives_samples_that_the_solver_takes(name, data):
    found = load(data if name == "its own" else name)
    assert found.about
    distributions = found.distributions(facts_of(KNOWN[data]))
    for seed in range(5):
        MultiMergeSVC(**sampled(distributions, seed))._validate_params()


@pytest.mark.parametrize("data", KNOWN)
def test_a_sets_own_space_holds_what_the_paper_tuned(data):
    found = load(data)
    assert found.needs() == set()
    distributions = found.distributions({})
    assert distributions["C"]._contains(KNOWN[data].c)
    assert distributions["gamma"]._contains(KNOWN[data].gamma)
    assert (distributions["mergees"].low, distributions["mergees"].high) == (2, 11)


def test_the_papers_grid_is_shares_of_support_vectors_times_mergees():
    found = load("paper-grid")
    assert found.needs() == {"paper-C", "paper-gamma", "support-vectors"}
    distributions = found.distributions({"paper-C": 8, "paper-gamma": 8, "support-vectors": 2751})
    assert distributions == {
        "C": CategoricalDistribution([8.0]),
        "gamma": CategoricalDistribution([8.0]),
        "budget": CategoricalDistribution([28, 138, 275, 413, 688, 1376]),
        "mergees": CategoricalDistribution(list(range(2, 12))),
        "polish": CategoricalDistribution([0]),
    }


def test_gamma_of_the_default_space_follows_the_scale():
    gamma = load("default").distributions({"scale": 0.2})["gamma"]
    assert gamma.log
    assert gamma.low == pytest.approx(0.01)
    assert gamma.high == pytest.approx(10.0)


def numbers(least, most):
    return st.floats(least, most) | st.integers(math.ceil(least), math.floor(most))


def forms(values, ranges=True):
    """What may stand for a parameter, and whether a sampled value fits it."""
    fixed = values.map(lambda value: (value, {value}.__contains__))
    table = values.map(lambda value: ({"value": value}, {value}.__contains__))
    choices = st.lists(values, min_size=1, max_size=5, unique=True).map(
        lambda them: ({"choices": them}, set(them).__contains__)
    )
    bounds = st.tuples(values, values).filter(lambda pair: pair[0] != pair[1]).map(sorted)
    between = st.tuples(bounds, st.booleans()).map(
        lambda drawn: (
            {"low": drawn[0][0], "high": drawn[0][1], "log": drawn[1]},
            lambda value: drawn[0][0] <= value <= drawn[0][1],
        )
    )
    return st.one_of(fixed, table, choices, *([between] if ranges else []))


SPACES = st.fixed_dictionaries(
    {
        "C": forms(numbers(1e-6, 1e6)),
        "gamma": forms(numbers(1e-6, 1e6)),
        "budget": forms(st.integers(1, 10_000)),
        "mergees": forms(st.integers(2, 20)),
    },
    optional={
        "epochs": forms(st.integers(1, 50)),
        **{name: forms(st.sampled_from(words), ranges=False) for name, words in WORDS.items()},
    },
)


@given(drawn=SPACES, seed=st.integers(0, 1000))
def test_samples_lie_where_the_toml_says_and_have_the_solvers_types(drawn, seed):
    written = {name: given for name, (given, _) in drawn.items()}
    values = sampled(parse("drawn.toml", toml(written)).distributions({}), seed)
    assert values.keys() == drawn.keys()
    for name, (_, fits) in drawn.items():
        assert fits(values[name]), name
        kind = float if name in ("C", "gamma") else str if name in WORDS else int
        assert type(values[name]) is kind, name
    MultiMergeSVC(**values)._validate_params()


@given(drawn=SPACES)
def test_the_order_in_the_file_does_not_matter(drawn):
    written = [(name, given) for name, (given, _) in drawn.items()]
    first, second = (parse("x.toml", toml(dict(order))).distributions({}) for order in (written, written[::-1]))
    assert list(first.items()) == list(second.items())


@given(
    low=st.floats(1e-3, 1.0),
    ratio=st.floats(1.5, 1e3),
    fact=st.floats(1e-3, 1e3),
    unit=st.sampled_from(["scale", "paper-gamma"]),
)
def test_relative_gamma_is_absolute_gamma_times_the_fact(low, ratio, fact, unit):
    high = low * ratio
    assert only("gamma", {"low": low, "high": high, "of": unit}, {unit: fact}) == FloatDistribution(
        low * fact, high * fact
    )
    assert only("gamma", {"choices": [low, high], "of": unit}, {unit: fact}) == CategoricalDistribution(
        [low * fact, high * fact]
    )
    assert only("gamma", {"value": low, "of": unit}, {unit: fact}) == CategoricalDistribution([low * fact])


@given(
    shares=st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True),
    fact=st.integers(1, 1_000_000),
    unit=st.sampled_from(["rows", "support-vectors"]),
    log=st.booleans(),
)
def test_a_budget_is_a_share_in_whole_vectors_and_never_none(shares, fact, unit, log):
    shares = sorted(share / 1000 for share in shares)
    budgets = [max(round(share * fact), 1) for share in shares]
    assume(budgets[0] < budgets[-1])
    chosen = only("budget", {"choices": shares, "of": unit}, {unit: fact})
    assert chosen == CategoricalDistribution(sorted(set(budgets)))
    assert {type(value) for value in chosen.choices} == {int}
    between = only("budget", {"low": shares[0], "high": shares[-1], "log": log, "of": unit}, {unit: fact})
    assert between == IntDistribution(budgets[0], budgets[-1], log=log)


def test_facts_may_be_numpy_scalars():
    distribution = only("budget", {"choices": [0.1, 0.5], "of": "rows"}, {"rows": np.int64(1000)})
    assert [type(value) for value in distribution.choices] == [int, int]
    distribution = only("gamma", {"value": 2, "of": "scale"}, {"scale": np.float32(0.5)})
    assert [type(value) for value in distribution.choices] == [float]


def test_a_whole_number_may_be_written_as_a_float_and_the_other_way_round():
    distributions = space(C=3, budget={"choices": [10.0, 2e1]}).distributions({})
    assert [(value, type(value)) for value in distributions["C"].choices] == [(3, float)]
    assert [(value, type(value)) for value in distributions["budget"].choices] == [(10, int), (20, int)]


@pytest.mark.parametrize("name", WORDS)
def test_every_word_of_the_solver_can_be_searched_and_no_other(name):
    assert only(name, {"choices": WORDS[name]}) == CategoricalDistribution(WORDS[name])
    assert set(WORDS[name]) == MultiMergeSVC._parameter_constraints[name][0].options


NO_VALUE = "give low and high (and log = true), or choices, or value; and of, if they are relative"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "speed = 3",
            "speed: no such parameter; there are C, gamma, budget, mergees, epochs, polish, maintenance, engine, bias",
        ),
        ("C = true", "C: true is not a number"),
        ('C = "large"', 'C: "large" is not a number'),
        ("C = 2024-01-01", 'C: "2024-01-01" is not a number'),
        ("C = [1, 2]", "C: several values are written { choices = [1, 2] }"),
        ("C = nan", "C: takes numbers from 1e-30 to 1e+30, not nan"),
        ("C = inf", "C: takes numbers from 1e-30 to 1e+30, not inf"),
        ("C = 0", "C: takes numbers from 1e-30 to 1e+30, not 0"),
        ("C = -1.5", "C: takes numbers from 1e-30 to 1e+30, not -1.5"),
        ("C = 1" + 400 * "0", "C: takes numbers from 1e-30 to 1e+30, not 1000000000"),
        ('C = { value = 1, of = "rows" }', 'C: of = "rows" makes no sense: it may be "paper-C"'),
        ("C = {}", f"C: has no value: {NO_VALUE}"),
        ("C = { log = true }", "C: log = true must be true or false, beside low and high"),
        ("C = { value = 1, log = true }", "C: log = true must be true or false, beside low and high"),
        ("C = { low = 1, high = 2, log = 1 }", "C: log = 1 must be true or false, beside low and high"),
        ("C = { low = 1 }", f"C: has low: {NO_VALUE}"),
        ("C = { high = 1 }", f"C: has high: {NO_VALUE}"),
        ("C = { low = 1, hihg = 2 }", f"C: has low, hihg: {NO_VALUE}"),
        ("C = { low = 1, high = 2, step = 1 }", f"C: has low, high, step: {NO_VALUE}"),
        ("C = { low = 1, high = 2, choices = [1] }", f"C: has low, high, choices: {NO_VALUE}"),
        ("C = { value = 1, choices = [1] }", f"C: has value, choices: {NO_VALUE}"),
        ("C = { low = 2, high = 1 }", "C: low = 2 must be below high = 1"),
        ("C = { low = 2, high = 2.0 }", "C: low = 2 must be below high = 2"),
        ("C = { low = 0, high = 1, log = true }", "C: takes numbers from 1e-30 to 1e+30, not 0"),
        ("C = { low = 1, high = inf }", "C: takes numbers from 1e-30 to 1e+30, not inf"),
        ("C = { low = 1, high = 1e31 }", "C: takes numbers from 1e-30 to 1e+30, not 1e+31"),
        ("C = { low = [1], high = 2 }", "C: [1] is not a number"),
        ("C = { low = { of = 1 }, high = 2 }", 'C: {"of": 1} is not a number'),
        ("C = { low = false, high = true }", "C: false is not a number"),
        ("C = { choices = [] }", "C: choices = [] must be a list of values"),
        ("C = { choices = 3 }", "C: choices = 3 must be a list of values"),
        ("C = { choices = [1, true] }", "C: true is not a number"),
        ("C = { choices = [1, [2]] }", "C: [2] is not a number"),
        ("C = { choices = [1, 2, 1.0] }", "C: 1 is among the choices twice"),
        ("[[C]]\nlow = 1", 'C: several values are written { choices = [{"low": 1}] }'),
        ('gamma = "scale"', 'gamma: "scale" is not a number: write { value = 1, of = "scale" }'),
        ('gamma = "auto"', 'gamma: "auto" is not a number'),
        ('gamma = { value = 1, of = "paper-C" }', 'gamma: of = "paper-C" makes no sense: it may be "scale" or'),
        ("gamma = { value = 1, of = 3 }", 'gamma: of = 3 makes no sense: it may be "scale" or "paper-gamma"'),
        ('gamma = { value = 0, of = "scale" }', "gamma: 0 of scale must be above 0 and at most 1e+30"),
        ('gamma = { low = 1, high = nan, of = "scale" }', "gamma: nan of scale must be above 0 and at most 1e+30"),
        (
            "budget = 0.1",
            'budget: takes whole numbers from 1 to 1,000,000, not 0.1; a share of the data needs of = "rows"',
        ),
        ("budget = 10.5", "budget: takes whole numbers from 1 to 1,000,000, not 10.5"),
        ("budget = { low = 0, high = 10 }", "budget: takes whole numbers from 1 to 1,000,000, not 0"),
        ("budget = { low = 1, high = 2_000_000 }", "budget: takes whole numbers from 1 to 1,000,000, not 2000000"),
        ("budget = { low = 1, high = inf }", "budget: takes whole numbers from 1 to 1,000,000, not inf"),
        ("budget = nan", "budget: takes whole numbers from 1 to 1,000,000, not nan"),
        ('budget = { low = 10, high = 500, of = "rows" }', "budget: 10 of rows must be above 0 and at most 1"),
        ('budget = { choices = [0.5, 1.5], of = "support-vectors" }', "1.5 of support-vectors must be above 0 and at"),
        ('budget = { value = -0.5, of = "rows" }', "budget: -0.5 of rows must be above 0 and at most 1"),
        ("mergees = 1", "mergees: takes whole numbers from 2 to 1,000, not 1"),
        ("mergees = { choices = [2, 2.5] }", "mergees: takes whole numbers from 2 to 1,000, not 2.5"),
        ('mergees = { value = 0.1, of = "rows" }', 'mergees: of = "rows" makes no sense: give absolute values'),
        ("epochs = 0", "epochs: takes whole numbers from 1 to 10,000, not 0"),
        ('engine = "turbo"', 'engine: "turbo" is none of fast, paper'),
        ("engine = 1", "engine: 1 is none of fast, paper"),
        ('engine = { choices = ["fast", "fast"] }', 'engine: "fast" is among the choices twice'),
        ("engine = { low = 1, high = 2 }", 'engine: takes words, not a range: { choices = ["fast", "paper"] }'),
        ('engine = { value = "fast", of = "rows" }', 'engine: of = "rows" makes no sense: give absolute values'),
        ("maintenance = [true]", "maintenance: several values are written { choices = [true] }"),
        ("about = 3", "about: 3 is not a text"),
    ],
)
def test_a_mistake_in_a_space_says_where_and_what(line, message):
    name = line.lstrip("[").split(" ")[0].split("]")[0]
    rest = {key: value for key, value in BASE.items() if key != name}
    with pytest.raises(SpaceError) as told:
        parse("mine.toml", f"{toml(rest)}\n{line}\n")
    assert str(told.value).startswith("search space mine.toml, ")
    assert message in str(told.value)
    assert len(str(told.value)) < 250


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "search space mine.toml lacks C, gamma, budget, mergees: give a value"),
        ("C = 1\nmergees = 2", "search space mine.toml lacks gamma, budget: give a value"),
        ("C = ", "search space mine.toml is not TOML: Invalid value (at end of document)"),
        ("C = 1\nC = 2", "search space mine.toml is not TOML: Cannot overwrite a value"),
        ("C = 1" + 5000 * "0", "search space mine.toml is not TOML: Exceeds the limit"),
        ("C = " + 5000 * "[", "search space mine.toml is not TOML: "),
    ],
)
def test_a_text_that_is_no_space_is_refused(text, message):
    with pytest.raises(SpaceError) as told:
        parse("mine.toml", text)
    assert message in str(told.value)


def test_a_file_is_a_space_under_its_own_name(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('about = "Größe"\n' + toml(BASE), encoding="utf-8-sig")
    found = load(str(file))
    assert (found.name, found.about) == (str(file), "Größe")
    assert found.parameters == space().parameters


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.toml", "cannot read search space gone.toml: No such file or directory"),
        ("folder.toml", "cannot read search space folder.toml: Is a directory"),
        ("binary.toml", "cannot read search space binary.toml: it is not a text file in UTF-8"),
        ("a\0b.toml", "cannot read search space a\0b.toml: "),
        ("mine", "no search space 'mine'; there are adult, default, ijcnn, paper-grid, phishing, skin, web, or name a"),
        ("", "no search space ''; there are adult"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text(toml(BASE))
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "binary.toml").write_bytes(b"\x80\x03\xff")
    with pytest.raises(SpaceError) as told:
        load(name)
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("parameters", "facts", "message"),
    [
        (
            {"gamma": {"value": 1, "of": "paper-gamma"}, "budget": {"value": 0.5, "of": "support-vectors"}},
            {"rows": 10, "scale": 1.0},
            "search space mine.toml is relative to paper-gamma, support-vectors, unknown for this data: choose a space",
        ),
        (
            {"budget": {"low": 0.001, "high": 0.01, "of": "rows"}},
            {"rows": 100},
            "search space mine.toml, budget: 0.001 to 0.01 of rows is 1 alone for this data: widen the range",
        ),
        (
            {"budget": {"choices": [0.001, 0.01], "of": "rows"}},
            {"rows": 100},
            "search space mine.toml, budget: 0.001, 0.01 of rows are all 1 for this data: choose others",
        ),
        (
            {"budget": {"value": 0.5, "of": "rows"}},
            {"rows": 4_000_000},
            "search space mine.toml, budget: takes whole numbers from 1 to 1,000,000, not 2000000",
        ),
        (
            {"gamma": {"value": 1, "of": "scale"}},
            {"scale": math.inf},
            "search space mine.toml, gamma: is relative to scale, which is inf for this data: give absolute values",
        ),
        (
            {"gamma": {"value": 1, "of": "scale"}},
            {"scale": math.nan},
            "search space mine.toml, gamma: is relative to scale, which is nan for this data",
        ),
        (
            {"budget": {"value": 0.5, "of": "rows"}},
            {"rows": 0},
            "search space mine.toml, budget: is relative to rows, which is 0 for this data",
        ),
        (
            {"gamma": {"low": 1, "high": 1e30, "of": "scale"}},
            {"scale": 1e300},
            "search space mine.toml, gamma: takes numbers from 1e-30 to 1e+30, not 1e+300",
        ),
    ],
)
def test_data_that_does_not_suit_a_space_is_a_mistake_too(parameters, facts, message):
    with pytest.raises(SpaceError) as told:
        space(**parameters).distributions(facts)
    assert message in str(told.value)


def test_only_a_budget_is_told_about_shares():
    for name in ("C", "mergees"):
        with pytest.raises(SpaceError) as told:
            only(name, {"value": 1e-40})
        assert "share" not in str(told.value)


def test_what_enqueued_parameters_leave_out_is_what_the_solver_takes():
    defaults = signature(MultiMergeSVC).parameters
    assert {name: defaults[name].default for name in USUAL} == USUAL
