"""What pictures say: few classes, ranges that show the field, words that do not collide, histories that only rise."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshots import CASES, interrupted, study_of

from workflows.front import hypervolume
from workflows.report import colours
from workflows.report.budgets import budgets
from workflows.report.classes import classes
from workflows.report.clock import clock
from workflows.report.history import box, history, hypervolumes
from workflows.report.importance import FEWEST, importances
from workflows.report.influence import influence
from workflows.report.labels import placed
from workflows.report.panels import Axis, Bars, Label, Level, Line, Points, Spans
from workflows.report.ranges import log_ticks, padded, worth_seeing
from workflows.report.trade_off import trade_off
from workflows.wording import export_command, objective, power_of_ten, span

VALUES = st.lists(
    st.one_of(
        st.integers(-1000, 10**6), st.floats(allow_nan=False, allow_infinity=False), st.none(), st.text(max_size=3)
    ),
    min_size=1,
    max_size=60,
)


def marks_of(picture, kind, panel=0):
    return [mark for mark in picture.panels[panel].marks if isinstance(mark, kind)]


@given(VALUES, st.integers(2, 8))
def test_every_value_has_one_of_a_few_classes(values, most):
    found = classes(values, most)
    assert len(found.members) == len(values)
    assert len(found.labels) <= most
    assert set(found.members) <= set(range(len(found.labels)))
    if found.exact:
        assert len(found.labels) == len({repr(value) for value in values})


def test_few_budgets_are_classes_of_their_own_and_many_are_ranges():
    assert classes([500, 20, 20, 100], 6).labels == ("20", "100", "500")
    found = classes(range(10, 501), 6)
    assert not found.exact
    assert found.labels[0].startswith("10–")
    assert found.labels[-1].endswith("–500")
    assert list(found.members) == sorted(found.members)


def test_names_and_nothing_are_classes_too():
    assert classes(["b", None, "a", "b"], 6).labels == ("a", "b", "none")
    assert classes([True, False], 6).labels == ("False", "True")


def test_colours_are_different_and_run_from_dark_to_light():
    shades = colours.ordered(11)
    assert len(set(shades)) == 11
    light = [0.2126 * int(c[1:3], 16) + 0.7152 * int(c[3:5], 16) + 0.0722 * int(c[5:], 16) for c in shades]
    assert light == sorted(light)
    assert light[-1] < 220, "visible on white"


@given(st.floats(1e-9, 1e9), st.floats(1.0001, 1e8))
def test_a_log_axis_has_readable_ticks(low, ratio):
    high = low * ratio
    low, high = padded(low, high, 0.05, 0.05, log=True)
    ticks, texts = log_ticks(Axis(unit="seconds", log=True), low, high)
    assert len(set(texts)) == len(texts)
    assert sum(low <= tick <= high for tick in ticks) <= 12


def test_a_hopeless_trial_does_not_squeeze_the_others():
    good = [0.9 + number / 1000 for number in range(50)]
    low, high = worth_seeing(good[-5:], [*good, 0.1, 0.2])
    assert low >= 0.9
    assert high == max(good)
    study = study_of(200)
    lower, upper = trade_off(study).panels[0].y.range
    scores = sorted(trial.values[0] for trial in study.complete)
    assert lower > scores[0]
    assert sum(lower <= score <= upper for score in scores) >= len(scores) / 2
    assert all(lower <= member.values[0] <= upper for member in study.front)


@pytest.mark.parametrize("case", CASES)
def test_words_do_not_cover_each_other(case):
    panel = trade_off(CASES[case](), 0.95).panels[0]
    labels = [mark for mark in panel.marks if isinstance(mark, Label)]
    for width, height in ((500, 440), (1100, 440)):
        boxes = []
        for label in labels:
            (x0, x1), (y0, y1) = panel.x.range, panel.y.range
            across = math.log(label.x / x0) / math.log(x1 / x0) * width + label.right
            up = (label.y - y0) / (y1 - y0) * height + label.up
            boxes.append((across - 3.5 * len(label.text), up - 8, across + 3.5 * len(label.text), up + 8))
        for place, one in enumerate(boxes):
            for other in boxes[place + 1 :]:
                assert one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]


def test_words_find_room_in_a_crowd():
    dice = random.Random(3)
    crowd = [(10 ** dice.uniform(-3, 0), dice.uniform(0.5, 0.7)) for _ in range(300)]
    (label,) = placed([(0.1, 0.7, "knee")], crowd, (1e-3, 1.0), (0.5, 0.9))
    assert label.up > 0


def test_the_trade_off_shows_everything_there_is():
    study = study_of(120)
    picture = trade_off(study, 0.95)
    points = marks_of(picture, Points)
    count = len(study.complete) + sum(trial.state == "stopped" for trial in study.trials) + len(study.front)
    assert sum(len(mark.x) for mark in points) == count
    assert [mark.y for mark in marks_of(picture, Level)] == [0.95]
    assert not marks_of(trade_off(study), Level)
    (front,) = marks_of(picture, Line)
    assert front.steps
    assert sorted(front.y) == sorted(member.values[0] for member in study.front)
    best = next(mark for mark in points if mark.error_y)
    assert sorted(up for _, up in best.error_y) == pytest.approx(sorted(one.deviations[0] for one in study.front))


def test_a_front_of_three_objectives_is_no_line():
    assert not marks_of(trade_off(CASES["third size"]()), Line)


def test_trials_of_equal_budget_are_joined_on_a_grid_only():
    assert len(marks_of(trade_off(CASES["grid"]()), Line)) == 1 + 4
    assert len(marks_of(trade_off(study_of(60)), Line)) == 1


def test_deviations_that_are_not_known_are_not_drawn():
    points = marks_of(trade_off(CASES["confirmed once"]()), Points)
    assert not any(any(pair) for mark in points for pair in (*mark.error_x, *mark.error_y))


@pytest.mark.parametrize("case", ["usual", "third size", "grid", "f1 and work", "interrupted", "partly confirmed"])
def test_the_history_only_rises_and_ends_with_the_front(case):
    study = CASES[case]()
    grown = [share for _, share in hypervolumes(study)]
    assert grown == sorted(grown)
    points, worst, volume = box(study)
    assert grown[-1] == pytest.approx(hypervolume(points, worst) / volume, rel=1e-12)
    assert 0 < grown[-1] <= 1
    for panel in (0, 1):
        (line,) = marks_of(history(study), Line, panel)
        assert list(line.x) == sorted(line.x)
        assert line.y[-1] == grown[-1]


def test_every_ended_trial_has_a_bar_in_its_lane():
    for case in ("usual", "many workers", "interrupted", "all failed"):
        study = CASES[case]()
        spans = marks_of(history(study), Spans, 2)
        assert sum(len(mark.lanes) for mark in spans) == len(study.trials)
        assert all(begin <= end for mark in spans for begin, end in zip(mark.begins, mark.ends, strict=True))
        lanes = {lane for mark in spans for lane in mark.lanes}
        assert lanes == set(range(len(history(study).panels[2].y.names)))


def test_pauses_do_not_count():
    study = interrupted()
    time = clock(study.trials)
    assert len(time.pauses) == 1
    assert time(time.end) < 60
    moments = sorted([trial.began for trial in study.trials] + [trial.ended for trial in study.trials])
    assert [time(moment) for moment in moments] == sorted(time(moment) for moment in moments)
    assert clock(study_of(50).trials).pauses == ()
    assert clock(()).end == 0


def test_importances_name_what_decides():
    study = study_of(400, stopped=0, failed=0)
    score, cost = importances(study)
    assert max(score, key=score.get) == "gamma"
    assert max(cost, key=cost.get) == "budget"
    assert sum(score.values()) == pytest.approx(1)
    assert importances(study) == [score, cost]
    drawn = [sorted(mark.lengths) for mark in marks_of(influence(study), Bars)]
    assert drawn == [sorted(score.values()), sorted(cost.values())]


def test_what_cannot_be_compared_is_said():
    few = influence(study_of(FEWEST - 1, stopped=0, failed=0)).panels[0]
    assert f"need {FEWEST} complete trials; there are {FEWEST - 1}" in few.note
    assert "only C was varied" in influence(CASES["one parameter"]()).panels[0].note
    assert "equally good" in influence(CASES["all alike"]()).panels[0].note
    assert [panel.note for panel in budgets(CASES["odd parameters"]()).panels] == [
        "The space has no budget.",
        "The space has no budget.",
        "The space has no mergees.",
    ]
    assert all("No trial is complete" in panel.note for panel in budgets(CASES["all failed"]()).panels)


def test_lines_against_budget_are_the_best_and_the_middle():
    study = CASES["grid"]()
    picture = budgets(study)
    for line in marks_of(picture, Line, 0) + marks_of(picture, Line, 1):
        assert list(line.x) == [20, 100, 200, 300]
    at = [trial for trial in study.complete if trial.parameters["budget"] == 20 and trial.parameters["mergees"] == 2]
    assert marks_of(picture, Line, 0)[0].y[0] == max(trial.values[0] for trial in at)


def test_what_is_said_of_numbers():
    assert objective("accuracy", 0.94315, 0.0013) == "94.31% ±0.13"
    assert objective("cpu", 0.2020, 0.0078) == "202 ±7.8 ms"
    assert objective("wall", 1234.5) == "1,234 s"
    assert objective("work", 132237851.0) == "132·10⁶"
    assert objective("size", 345.0) == "345"
    assert objective("cpu", math.nan) == "–"
    assert [power_of_ten(value) for value in (20000, 1e5, 5e-7)] == ["2·10⁴", "10⁵", "5·10⁻⁷"]
    assert [span(value) for value in (0.84, 42.3, 252, 3600, 11100)] == [
        "0.84 s",
        "42 s",
        "4 min 12 s",
        "1 h",
        "3 h 5 min",
    ]


def test_a_command_can_be_pasted_into_a_shell():
    import shlex

    said = export_command("my study; rm -rf *", 7, "--home 'my home'")
    words = ["mmbsgd", "export", "my study; rm -rf *", "--trial", "7", "--home", "my home"]
    assert shlex.split(said) == words
