"""What can happen to a trial on a worker: it is told, tried again, and costs no other trial anything."""

from dataclasses import dataclass

import pytest
import ray
from ray_clusters import DEEDS, Toy, Witness, assert_each_ended_once, attempts, connected, ends, toy_study, until

from workflows.backends import ray_actors
from workflows.backends.ray_actors import RayActors
from workflows.errors import StudyError
from workflows.records import TrialSpec

pytestmark = pytest.mark.xdist_group("ray")

SECONDS_TO_START = 180.0


@pytest.fixture(scope="module", autouse=True)
def nodes():
    """Two nodes of one CPU each."""
    with connected(1, 1):
        yield [node["NodeID"] for node in ray.nodes()]


@dataclass(frozen=True)
class NotOn(Toy):
    """Does not start on some nodes."""

    nodes: tuple[str, ...] = ()

    def open(self):
        if ray.get_runtime_context().get_node_id() in self.nodes:
            raise RuntimeError("the disk is on fire")
        return super().open()


def spec(number, deed="fine"):
    return TrialSpec(number, {"x": 0.5, "deed": deed}, seed=number)


def started(toy, slots, **options):
    backend = RayActors(toy, **options)
    ready(backend, slots)
    return backend


def ready(backend, slots):
    until(lambda: backend.wait(0.1) or backend.slots() == slots, SECONDS_TO_START, f"{slots} workers")


def run(backend, specs):
    """Submits them at once; their results by number."""
    for each in specs:
        backend.submit(each)
    results = []
    until(lambda: results.extend(backend.wait(0.1)) or len(results) >= len(specs), SECONDS_TO_START, "results")
    assert not backend.wait(0.2)
    assert len({result.number for result in results}) == len(results) == len(specs)
    return {result.number: result for result in results}


def test_every_kind_of_failure_is_told_tried_again_and_reported(tmp_path):
    outcome = toy_study(tmp_path, Toy(str(tmp_path)), deeds=DEEDS, trial_timeout=2.0)
    tries = {parameters["deed"]: found for parameters, found in attempts(tmp_path)}
    complete = ("COMPLETE", "")
    assert tries["fine"] == [complete]
    for deed, reason in {
        "killed": "its worker died: Worker unexpectedly exits",
        "memory": "MemoryError",
        "raises": "ZeroDivisionError: one by nought (ray_clusters.py, line ",
        "nan": "objectives are not finite: nan",
        "inf": "objectives are not finite: inf",
    }.items():
        assert [state for state, _ in tries[deed]] == ["FAIL"] * 4
        assert all(said.startswith(reason) for _, said in tries[deed]), tries[deed]
    (killed, after_kill), (hung, after_hang) = tries["killed once"], tries["hangs once"]
    assert killed[0] == "FAIL"
    assert hung == ("FAIL", "it took longer than --trial-timeout 2 s")
    assert after_kill == after_hang == complete
    progress = outcome.progress
    assert (progress.complete, progress.failed, progress.retries) == (3, 5, 17)
    assert sorted(reason for _, reason in progress.failures) == sorted(
        found[-1][1] for found in tries.values() if found[-1] != complete
    )
    assert sorted(ends(tmp_path)) == list(range(25))


def test_short_trials_are_queued_two_deep_and_only_the_dying_one_fails(tmp_path):
    backend = started(Toy(str(tmp_path)), 2, trial_timeout=1.0)
    try:
        assert backend.free() == 2
        run(backend, [spec(0), spec(1)])
        assert backend.free() == 4
        for first, deed in ((2, "killed"), (6, "hangs once")):
            # This one and the next run; two others are queued behind them.
            results = run(backend, [spec(first, deed), *map(spec, range(first + 1, first + 4))])
            assert [number for number, result in results.items() if result.state == "failed"] == [first]
            ready(backend, 2)
    finally:
        backend.close()


def test_one_worker_gets_one_trial_at_a_time(tmp_path):
    backend = started(Toy(str(tmp_path)), 1, workers=1)
    try:
        for number in range(3):
            assert backend.free() == 1
            run(backend, [spec(number)])
    finally:
        backend.close()


def test_a_node_whose_workers_do_not_start_is_left_alone(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_actors, "MOST_FAILED_STARTS", 1)
    witness = Witness()
    toy_study(tmp_path, NotOn(str(tmp_path), nodes=(nodes[0],)), trials=20, watcher=witness)
    assert_each_ended_once(tmp_path, 20)
    assert not witness.failures()


def test_workers_that_start_nowhere_are_a_message(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_actors, "MOST_FAILED_STARTS", 1)
    with pytest.raises(StudyError, match=r"workers do not start: .*RuntimeError: the disk is on fire"):
        toy_study(tmp_path, NotOn(str(tmp_path), nodes=tuple(nodes)), trials=5)


def test_a_study_that_finds_no_place_says_what_it_waits_for(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_actors, "LONG_START", 0.5)
    first, said = started(Toy(str(tmp_path)), 2), []
    second = RayActors(Toy(str(tmp_path)), note=said.append)
    try:
        until(lambda: second.wait(0.1) or said, SECONDS_TO_START, "a word")
        assert said == [
            "no worker has started yet: if others use the cluster's 2 CPUs, this study begins when some are free"
        ]
        first.close()
        ready(second, 2)
        assert len(run(second, [spec(0), spec(1)])) == 2
        assert len(said) == 1
    finally:
        second.close()
