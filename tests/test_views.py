"""What people and machines see of a study: the numbers are there, JSON is JSON, and nothing breaks on odd values."""

import io
import json
import math
import os
import signal
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from studies import SETTINGS, complete

from workflows.commands import front_view, study_view
from workflows.commands.front_view import as_json, front_json, front_table
from workflows.commands.plot import HEIGHT, WIDTH, scatter
from workflows.commands.study_view import StudyView
from workflows.study.confirmation import Member
from workflows.study.driver import Limits, Progress
from workflows.study.tuning import Outcome

PARAMETERS = {"C": 3.25, "gamma": 0.125, "budget": 123, "mergees": 4, "engine": "fast"}
CONFIRMED = Member(17, PARAMETERS, (0.8765, 0.0421), (0.0123, 0.0011), 5, (0.9, 0.04), {"size": 99.0})
SINGLE = Member(18, PARAMETERS | {"C": 1e-7}, (0.7, 2.5), (math.nan, math.nan), 1, (0.7, 2.5))
UNCONFIRMED = Member(19, PARAMETERS | {"engine": "paper"}, (0.6, 3e-5), found=(0.6, 3e-5))
IN_SECONDS = replace(SETTINGS, cost="cpu")
POINTS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e9)), max_size=30)


def rendered(thing, width=200):
    stream = io.StringIO()
    Console(file=stream, width=width).print(thing)
    return stream.getvalue()


def outcome_of(front, **options):
    progress = Progress(complete=7, stopped=3, failed=1, retries=4, hypervolume=0.75, failures=[(2, "out of luck")])
    return Outcome("mine", IN_SECONDS, replace(progress, **options), front, False, "mmbsgd-home/studies/mine.journal")


def strictly(content):
    """As JSON and back; NaN and infinities are no JSON."""

    def refuse(word):
        raise AssertionError(word)

    return json.loads(json.dumps(content), parse_constant=refuse)


@given(POINTS, POINTS)
def test_a_picture_has_its_size_and_its_marks_whatever_the_points(points, best):
    lines = scatter(points, best, ("accuracy", "cpu")).plain.splitlines()
    if not points and not best:
        assert lines == []
        return
    assert len(lines) == HEIGHT + 2
    assert max(map(len, lines)) <= WIDTH + 10
    drawn = "".join(lines)
    assert ("●" in drawn) == bool(best)
    assert "·" in drawn or best or not points


def test_a_picture_says_where_it_begins_and_ends():
    text = scatter([(0.5, 0.01)], [(0.5, 0.01), (0.875, 20.0)], ("accuracy", "cpu")).plain
    for said in ("87.50%", "accuracy", "cpu", "0.01", "20"):
        assert said in text
    lines = text.splitlines()
    assert lines[0].rstrip().endswith("●"), "the best and dearest is at the top right"
    assert lines[HEIGHT - 1][10] == "●"


def test_a_few_hopeless_trials_do_not_squeeze_the_others():
    points = [(0.9 + number / 1000, 1.0 + number) for number in range(50)]
    lines = scatter([*points, (0.0, 1.0)], points[-5:], ("accuracy", "cpu")).plain.splitlines()
    assert sum("·" in line or "●" in line for line in lines[:HEIGHT]) > HEIGHT // 2


def test_a_table_has_the_numbers_of_the_front():
    text = rendered(front_table([CONFIRMED, SINGLE, UNCONFIRMED], IN_SECONDS, "mine · confirmed"))
    for said in ("mine · confirmed", "17", "87.65% ±1.23", "42.1 ±1.1 ms", "3.25", "0.125", "123", "paper"):
        assert said in text
    for said in ("70.00%", "2.5 s", "1e-07", "60.00%", "30 µs", "CPU time", "runs"):
        assert said in text
    assert "nan" not in text


def test_a_table_shows_what_differs_and_what_everybody_knows():
    text = rendered(front_table([CONFIRMED], IN_SECONDS, "one"))
    assert "engine" not in text
    assert "γ" in text
    assert "engine" in rendered(front_table([CONFIRMED, UNCONFIRMED], IN_SECONDS, "two"))
    assert "runs" not in rendered(front_table([UNCONFIRMED], IN_SECONDS, "unconfirmed"))


@pytest.mark.parametrize("third", ["size", "latency"])
@pytest.mark.parametrize("cost", ["cpu", "wall", "work"])
def test_every_kind_of_objective_is_shown(cost, third):
    settings = replace(SETTINGS, cost=cost, third=third)
    value = 80.0 if third == "size" else 2.5e-6
    member = Member(1, PARAMETERS, (0.5, 1234.0, value), (0.1, 2.0, value / 10), 5, (0.5, 1234.0, value))
    text = rendered(front_table([member], settings, "three"))
    assert "50.00% ±10.00" in text
    assert ("1,234 ±2 s" if cost != "work" else "1,234 ±2") in text
    assert ("80 ±8" if third == "size" else "2.5 ±0.25 µs") in text
    assert list(strictly(front_json([member], settings))[0]["objectives"]) == ["accuracy", cost, third]


def test_an_empty_front_is_a_table_and_a_list():
    assert "none" in rendered(front_table([], IN_SECONDS, "none"))
    assert front_json([], IN_SECONDS) == []


def test_json_holds_the_outcome_and_is_json():
    content = strictly(as_json(outcome_of([CONFIRMED, SINGLE, UNCONFIRMED]), 12.5))
    assert content["study"] == "mine"
    assert content["trials"] == {"complete": 7, "stopped": 3, "failed": 1, "retries": 4}
    assert content["failures"] == [{"trial": 2, "reason": "out of luck"}]
    assert (content["hypervolume"], content["seconds"], content["interrupted"]) == (0.75, 12.5, False)
    first, second, third = content["front"]
    assert first["trial"] == 17
    assert first["parameters"] == PARAMETERS
    assert first["objectives"] == {"accuracy": 0.8765, "cpu": 0.0421}
    assert first["deviations"] == {"accuracy": 0.0123, "cpu": 0.0011}
    assert first["in the search"] == {"accuracy": 0.9, "cpu": 0.04}
    assert second["deviations"] == third["deviations"] == {}
    assert (second["runs"], third["runs"]) == (1, 0)
    assert "seconds" not in as_json(outcome_of([]))


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(study_view, "time", found)
    return found


def view_of(limits=None, *, terminal=False, settings=IN_SECONDS):
    stream = io.StringIO()
    console = Console(file=stream, width=100, force_terminal=terminal, _environ={"TERM": "xterm"})
    return StudyView(console, "mine", settings, limits or Limits(trials=40)), stream


def under_way(**options):
    return Progress(
        **{"complete": 7, "running": 3, "slots": 4, "front": [(5, (0.875, 0.1)), (2, (0.5, 0.01))]} | options
    )


def test_without_a_terminal_there_are_plain_lines_now_and_then(clock):
    view, stream = view_of()
    with view.shown():
        for _ in range(20):
            clock.now += 1.0
            view.searching(under_way(stopped=2, failed=1, retries=5, hypervolume=0.25), complete(1, 0.5, 0.1))
    lines = stream.getvalue().splitlines()
    assert 3 <= len(lines) <= 5
    assert "\x1b" not in stream.getvalue()
    for said in ("10/40 trials", "3 running on 4 workers", "2 stopped early", "1 failed", "5 tried again"):
        assert said in lines[0]
    for said in ("front of 2", "best accuracy 87.50%", "hypervolume 0.2500"):
        assert said in lines[0]


def test_the_time_left_is_that_of_the_trials_of_this_driver(clock):
    """30 of 40 trials were there when it began; five more took 50 seconds."""
    view, stream = view_of()
    view.searching(Progress(complete=30, slots=1), None)
    clock.now += 50.0
    view.searching(Progress(complete=35, slots=1), None)
    assert "about 50 s left" in stream.getvalue().splitlines()[-1]


def test_a_timeout_is_time_left_too(clock):
    """From when there are workers: their start, which takes a minute here, is not the search's time."""
    view, stream = view_of(Limits(timeout=90.0))
    view.searching(Progress(), None)
    clock.now += 60.0
    view.searching(Progress(slots=1), None)
    clock.now += 30.0
    view.searching(Progress(complete=5, slots=1), None)
    assert "about 60 s left" in stream.getvalue().splitlines()[-1]
    assert "5 trials" in stream.getvalue()


def test_notes_and_a_storage_that_is_away_are_said_at_once(clock):
    view, stream = view_of()
    view.note("compiling the kernels")
    view.storage_away("[connection] refused [/bold] [Errno 111]")
    view.confirming(0, 10)
    clock.now += 10
    view.confirming(3, 10)
    lines = stream.getvalue().splitlines()
    assert "compiling the kernels" in lines[0]
    assert "trying again: [connection] refused [/bold] [Errno 111]" in lines[1]
    assert "confirming the front with fresh seeds: 3 of 10 runs" in lines[-1]


def test_before_anything_has_happened_workers_are_starting(clock):
    view, stream = view_of()
    view.searching(Progress(), None)
    assert "workers are starting" in stream.getvalue()


@pytest.mark.parametrize("limits", [Limits(trials=40), Limits(timeout=9.0), Limits(patience=5), Limits()])
def test_in_a_terminal_there_is_a_picture(limits):
    view, stream = view_of(limits, terminal=True, settings=replace(IN_SECONDS, space="my[/bold][odd].toml"))
    with view.shown():
        view.note("workers are starting")
        for number in range(5):
            view.searching(under_way(), complete(number, 0.5, 1e5))
        view.confirming(1, 5)
        assert "space my[/bold][odd].toml" in rendered(view._picture())
        assert "●" in rendered(view._picture())
    assert stream.getvalue()


def test_a_picture_is_not_drawn_for_every_trial(clock, monkeypatch):
    """Drawing takes longer than a short trial."""
    view, _ = view_of(terminal=True)
    drawn = []
    monkeypatch.setattr(view, "_picture", lambda: drawn.append(1) or "picture")
    with view.shown():
        drawn.clear()
        for number in range(1000):
            clock.now += 0.001
            view.searching(under_way(), complete(number, 0.5, 1e5))
    assert 1 <= len(drawn) <= 6


def test_the_first_ctrl_c_asks_the_study_to_end_and_the_second_ends_the_program():
    view, stream = view_of()
    before = signal.getsignal(signal.SIGINT)
    with view.shown():
        os.kill(os.getpid(), signal.SIGINT)
        assert view.interrupted
        assert "running trials are given back" in stream.getvalue()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_front_says_how_far_it_is_confirmed():
    confirmed, found = Member(1, {}, (0.9, 1.0), runs=5), Member(2, {}, (0.8, 0.5))
    assert front_view.state([confirmed, confirmed]) == "confirmed"
    assert front_view.state([confirmed, found]) == "partly confirmed"
    assert front_view.state([found]) == "unconfirmed"
