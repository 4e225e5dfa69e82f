"""Experiments are ordinary studies: they resume, nothing is done twice, and their results are kept whole."""

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from reproduced import measured, phishing_like, watched

from workflows.data import PreparedData
from workflows.data.known import KNOWN
from workflows.environment import environment
from workflows.errors import DataError, StudyError
from workflows.peers import OURS
from workflows.reproduction.experiments import (
    EXPERIMENTS,
    datasets,
    merge_share,
    strategies,
    theorem,
)
from workflows.reproduction.lab import Interrupted, Lab, Place, product
from workflows.reproduction.page import write_page
from workflows.reproduction.results import Results, grouped, mean, mean_of, only, read, values, write
from workflows.reproduction.running import Clock, check, chosen, facts, run
from workflows.reproduction.sets import SETS, Sets
from workflows.reproduction.sizes import FULL, QUICK
from workflows.study.tuning import Watcher, looked_at

DOCS = Path(__file__).resolve().parents[1] / "docs" / "reproduction"
FACTS = {"size": "quick", "day": "2026-01-01", "processor": "any", "cores": "2"} | dict.fromkeys(
    ("python", "numpy", "numba", "scikit-learn"), "1"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return phishing_like(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory, files):
    """With the data prepared once."""
    home = tmp_path_factory.mktemp("home")
    Sets(QUICK, home, files, lambda *_: None).rows("phishing", "paper")
    return home


@pytest.fixture
def ran():
    return []


def lab_in(home, files, ran, watch=None):
    sets = Sets(QUICK, home, files, lambda *_: None)
    return Lab(QUICK, Place(home, workers=0), sets, watch=watch or watched(ran))


GRID = product(seed=range(2), C=[8.0], gamma=[2.0], budget=[10, 20], mergees=[2, 3], polish=[0])


def test_a_grid_is_a_study_of_all_its_parameter_sets_in_order(shared_home, files, ran):
    rows = lab_in(shared_home, files, ran).grid("order", "phishing", GRID)
    assert [{name: row[name] for name in GRID[0]} for row in rows] == GRID
    assert ran == ["reproduce-order-phishing-quick"]
    assert {row["set"] for row in rows} == {"phishing"}
    assert all(
        0.5 < row["accuracy"] <= 1 and row["cpu"] > 0 and row["support_vectors"] <= row["budget"] for row in rows
    )
    with looked_at(ran[0], shared_home, None) as ledger:
        assert len(ledger.trials()) == len(GRID)


def test_a_study_that_has_all_its_trials_is_not_opened_again(shared_home, files, ran):
    first = lab_in(shared_home, files, ran).grid("again", "phishing", GRID[:2])
    assert lab_in(shared_home, files, ran).grid("again", "phishing", GRID[:2]) == first
    assert len(ran) == 1


def test_what_was_interrupted_goes_on_where_it_stopped(shared_home, files, ran):
    class AfterTwo(Watcher):
        def searching(self, progress, result):
            self.interrupted = progress.done >= 2

    with pytest.raises(Interrupted):
        lab_in(shared_home, files, ran, watch=lambda study: study.run(AfterTwo())).grid("cut", "phishing", GRID)
    with looked_at("reproduce-cut-phishing-quick", shared_home, None) as ledger:
        before = {trial.number: trial.datetime_complete for trial in ledger.trials() if trial.state.name == "COMPLETE"}
    assert 2 <= len(before) < len(GRID)
    assert len(lab_in(shared_home, files, ran).grid("cut", "phishing", GRID)) == len(GRID)
    with looked_at("reproduce-cut-phishing-quick", shared_home, None) as ledger:
        after = {trial.number: trial.datetime_complete for trial in ledger.trials()}
    assert before.items() <= after.items(), "what was done stayed as it was"


def test_a_study_of_another_version_of_the_experiment_is_refused_with_a_way_out(shared_home, files, ran):
    lab = lab_in(shared_home, files, ran)
    lab.grid("version", "phishing", GRID[:1])
    with pytest.raises(
        StudyError, match=r"with other ranges .* by another version of this experiment: name another --h"
    ):
        lab.grid("version", "phishing", GRID)
    for other in (GRID[1:2], [GRID[0] | {"seed": 7}]):  # as many trials
        with pytest.raises(StudyError, match=r"other parameters or data, by another version of this experiment"):
            lab.grid("version", "phishing", other)


def test_equal_parameter_sets_are_one_trial(shared_home, files, ran):
    rows = lab_in(shared_home, files, ran).grid("equal", "phishing", [GRID[0], GRID[1], dict(GRID[0])])
    assert [row["budget"] for row in rows] == [GRID[0]["budget"], GRID[1]["budget"]]


def test_parameter_sets_of_several_methods_are_one_study(shared_home, files, ran):
    trials = [
        {"method": "svc", "C": 1.0, "gamma": 1.0},
        {"method": OURS, "C": 1.0, "gamma": 1.0, "budget": 10, "mergees": 2, "seed": 3},
    ]
    exact, ours = lab_in(shared_home, files, ran).grid("mixed", "phishing", trials)
    assert exact["support_vectors"] > 10 >= ours["support_vectors"]
    assert exact["budget"] is None


def test_a_trace_comes_with_its_rows(shared_home, files, ran):
    (row,) = lab_in(shared_home, files, ran).grid("traced", "phishing", GRID[:1], trace=True)
    assert [step["steps"] for step in row["trace"]] == sorted(step["steps"] for step in row["trace"])


def test_trials_that_fail_for_good_are_told_and_do_not_stop_the_rest(shared_home, files, ran):
    said = []
    lab = Lab(
        QUICK,
        Place(shared_home, workers=0),
        Sets(QUICK, shared_home, files, lambda *_: None),
        watch=watched(ran),
        warn=said.append,
    )
    wanted = [*GRID[:1], GRID[0] | {"mergees": 1}]  # there is no merging of one
    for _ in range(2):
        assert len(lab.grid("failing", "phishing", wanted)) == 1
    assert len(ran) == 1, "it is not tried for ever"
    assert len(said) == 2
    assert "1 of 2 trials failed" in said[0]


@pytest.mark.parametrize("use", ["paper", "choice", "folds"])
def test_quick_rows_are_few_and_whoever_chooses_sees_no_test_rows(shared_home, files, use):
    sets = Sets(QUICK, shared_home, files, lambda *_: None)
    rows = sets.rows("phishing", use)
    splits = PreparedData.open(rows.folder).manifest.splits
    used = {name for each in rows.splits.split(",") for side in each.split(":") for name in side.split("+")}
    assert used <= set(splits)
    assert ("test" in used) == (use == "paper")
    assert sets.trained_rows("phishing") <= QUICK.rows


def test_full_rows_are_those_of_the_paper(tmp_path, files):
    sets = Sets(FULL, tmp_path, files, lambda *_: None)
    assert sets.rows("phishing", "paper").splits == "train+validation:test"
    assert sets.rows("phishing", "choice").splits == ""
    assert sets.rows("phishing", "folds").folds == 5
    assert sets.trained_rows("phishing") == 4_000 - KNOWN["phishing"].test_rows


def test_a_damaged_preparation_is_made_again(tmp_path, files):
    sets = Sets(QUICK, tmp_path, files, lambda *_: None)
    folder = sets.rows("phishing", "paper").folder
    for file in tmp_path.glob("data/*/manifest*"):
        file.write_text("{")
    assert PreparedData.open(sets.rows("phishing", "paper").folder).folder.path == folder


def test_measurements_of_microseconds_have_one_worker_at_a_time(tmp_path, files):
    asked = []

    def watch(study):
        asked.append(study.job.workers)
        raise Interrupted

    for workers in (None, 4, 0):
        lab = Lab(QUICK, Place(tmp_path, workers=workers), Sets(QUICK, tmp_path, files, lambda *_: None), watch=watch)
        for undisturbed in (True, False):
            with pytest.raises(Interrupted):
                lab.grid("quiet", "phishing", GRID, undisturbed=undisturbed)
    assert asked == [1, None, 1, 4, 0, 0]


def test_rows_know_their_day_and_the_lab_its_machine(shared_home, files, ran):
    lab = lab_in(shared_home, files, ran)
    (row,) = lab.grid("dated", "phishing", GRID[:1])
    assert row["day"] == date.today().isoformat()
    assert lab.environment["version.python"] == environment()["version.python"]


def test_files_that_are_nowhere_are_a_message(tmp_path):
    with pytest.raises(DataError, match=r"--data .* has neither phishing nor phishing\.bz2"):
        Sets(QUICK, tmp_path, tmp_path, lambda *_: None).rows("phishing", "paper")
    with pytest.raises(DataError, match=r"--data is .* not a folder"):
        Sets(QUICK, tmp_path, tmp_path / "nowhere", lambda *_: None).rows("phishing", "paper")


def test_an_experiment_without_the_sets_that_it_has_in_the_paper_takes_another():
    assert chosen(EXPERIMENTS["pareto"], SETS) == ("adult",)
    assert chosen(EXPERIMENTS["pareto"], ("skin", "web")) == ("skin",)
    assert chosen(EXPERIMENTS["merge-share"], ("ijcnn", "skin")) == ("ijcnn",)


@pytest.mark.compiled_only
@pytest.mark.parametrize("module", [datasets, merge_share, theorem, strategies])
def test_an_experiment_makes_a_section_of_its_own_results(module, shared_home, files, ran, tmp_path):
    """Through the file, as the page is made."""
    name = next(name for name, one in EXPERIMENTS.items() if one.run is module.run)
    rows = module.run(lab_in(shared_home, files, ran), ("phishing",))
    write(tmp_path / "reproduction", name, Results(rows, FACTS))
    text = write_page(tmp_path).read_text()
    assert EXPERIMENTS[name].title in text
    assert "PHISHING" in text
    assert not re.search(r"\bnan\b", text)
    pictures = {path.name for path in (tmp_path / "reproduction").glob("*.svg")}
    assert pictures
    assert {path.with_suffix(".svg").name for path in (tmp_path / "reproduction").glob("*.png")} == pictures
    for picture in pictures:
        assert f"(reproduction/{picture})" in text


def test_results_come_back_as_they_were_and_a_damaged_file_is_a_message(tmp_path):
    rows = [measured(seed=1), {"set": "web", "method": "svc", "trace": [{"steps": 1}]}]
    write(tmp_path, "pareto", Results(rows, FACTS))
    assert read(tmp_path, "pareto") == Results(rows, FACTS)
    assert read(tmp_path, "peers") is None
    assert [path.name for path in tmp_path.iterdir()] == ["pareto.parquet"], "nothing is left beside it"
    content = (tmp_path / "pareto.parquet").read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"PAR1"):
        (tmp_path / "pareto.parquet").write_bytes(damaged)
        with pytest.raises(
            DataError, match=r"pareto\.parquet is not what .* delete it and run 'mmbsgd reproduce pareto'"
        ):
            read(tmp_path, "pareto")
    pq.write_table(pq.read_table(_foreign(tmp_path)), tmp_path / "pareto.parquet")
    with pytest.raises(DataError, match="delete it"):
        read(tmp_path, "pareto")


def _foreign(folder):
    import pyarrow as pa

    pq.write_table(pa.table({"a": [1]}), folder / "other.parquet")
    return folder / "other.parquet"


def test_full_results_are_not_replaced_by_a_quick_look(tmp_path):
    some = [EXPERIMENTS["pareto"]]
    write(tmp_path / "reproduction", "pareto", Results([measured()], FACTS | {"size": "full"}))
    with pytest.raises(StudyError, match="holds results of a full run of pareto: choose another --out"):
        check(some, QUICK, tmp_path)
    check(some, FULL, tmp_path)
    write(tmp_path / "reproduction", "pareto", Results([measured()], FACTS))
    check(some, QUICK, tmp_path)
    check(some, FULL, tmp_path)


def test_there_is_no_page_without_results(tmp_path):
    assert write_page(tmp_path) is None


def test_means_and_groups():
    rows = [measured(seed=seed, budget=budget, cpu=float(budget + seed)) for seed in range(3) for budget in (1, 5)]
    assert values(rows, "budget") == [1, 5]
    assert list(grouped(rows, "budget", "mergees")) == [(1, 2), (5, 2)]
    found = mean(only(rows, budget=5), "cpu")
    assert (found.value, found.deviation, found.count) == (6.0, 1.0, 3)
    assert found.error == pytest.approx(1 / 3**0.5)
    assert mean_of([4.0]).deviation == 0.0


def test_the_clock_learns_how_fast_this_machine_is():
    now = 0.0
    some = [replace(EXPERIMENTS["pareto"], minutes=(10.0, 1.0)) for _ in range(3)]
    clock = Clock(some, QUICK, now=lambda: now)
    assert clock.left == 180.0
    now = 30.0
    assert clock.left == 150.0
    now = 120.0
    clock.next()  # twice as slow as elsewhere
    assert clock.left == 240.0
    now = 480.0
    assert clock.left == 120.0, "the second takes longer than it should; the third is still to come"
    clock.next()
    clock.next()
    assert clock.left == 0.0


def test_facts_are_those_of_the_measurement_and_for_strangers():
    rows = [measured(day=day) for day in ("2026-02-03", "2026-02-01", "2026-02-02")]
    found = facts(QUICK, environment() | {"machine.processor": "a fast one"}, rows, {})
    assert (found["size"], found["day"], found["processor"]) == ("quick", "2026-02-01 to 2026-02-03", "a fast one")
    assert facts(QUICK, environment(), rows[:1], {})["day"] == "2026-02-03"
    assert not {"host", "machine.host"} & set(found)
    json.dumps(found)


def test_what_would_be_wrong_at_the_end_is_said_at_the_start(tmp_path):
    some = [EXPERIMENTS["pareto"]]
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write to --out"):
        check(some, QUICK, tmp_path / "file" / "folder")
    (tmp_path / "reproduction").mkdir()
    (tmp_path / "reproduction" / "peers.parquet").write_bytes(b"damaged")
    with pytest.raises(DataError, match="delete it"):
        check(some, QUICK, tmp_path)


def test_sets_that_are_not_asked_for_keep_their_results(shared_home, files, ran, tmp_path):
    theirs = [measured(set="web", method="svc", day="2026-01-01")]
    write(tmp_path / "reproduction", "theorem", Results(theirs, FACTS))
    some = [replace(EXPERIMENTS["theorem"], run=lambda lab, sets: [measured(set=sets[0], day="2026-03-01")])]
    lab = lab_in(shared_home, files, ran)
    lab.environment = environment()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workflows.reproduction.running.write_page", lambda *_, **__: None)
        run(some, ("phishing",), lab, tmp_path, Clock(some, QUICK), lambda said: None)
    kept = read(tmp_path / "reproduction", "theorem")
    assert {row["set"] for row in kept.rows} == {"phishing", "web"}
    assert kept.facts["processor"].startswith(FACTS["processor"] + " and "), "all machines are told"
    assert not kept.facts["processor"].endswith(" and ")
    assert kept.facts["day"] == "2026-01-01 to 2026-03-01"
    write(tmp_path / "reproduction", "theorem", kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workflows.reproduction.running.write_page", lambda *_, **__: None)
        run(some, ("phishing",), lab, tmp_path, Clock(some, QUICK), lambda said: None)
    assert read(tmp_path / "reproduction", "theorem").facts == kept.facts, "nothing is told twice"
