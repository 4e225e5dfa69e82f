"""Whatever MLflow has of a study, afterwards it has all of it, once: also if the writer dies between any two calls."""

import math
from dataclasses import replace

import pytest
from running import toy
from tracked import Opened, assert_level, database_of, looked_up, made_up, opened, quiet, rows, with_database

from workflows.errors import TrackingBusy, TrackingError
from workflows.study.confirmation import Member
from workflows.tracking.lock import held
from workflows.tracking.runs import PARENT, STUDY, TRIAL, child, parent
from workflows.tracking.store import MOST_METRICS, Away
from workflows.tracking.sync import Sync, experiment_name

pytestmark = quiet


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return with_database(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def store(home):
    store = opened(home)
    yield store
    store.close()


@pytest.fixture
def study(request):
    """A name of the test's own."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:100]


class Killed(BaseException):
    """What `kill -9` would be: nobody catches it."""


class Failing:
    """MLflow's client, until the n-th call of those that change something: that one is not carried out, or its answer
    is lost."""

    CHANGES = (
        "create_experiment",
        "create_run",
        "log_batch",
        "set_terminated",
        "update_run",
        "delete_run",
        "set_experiment_tag",
    )

    def __init__(self, client, fails_at, *, arrives, error):
        self._client, self._fails_at, self._arrives, self._error = client, fails_at, arrives, error
        self.calls, self.values = [], 0

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if name not in self.CHANGES:
            return method

        def call(*arguments, **options):
            self.calls.append(name)
            self.values += len(arguments[1]) if name == "log_batch" else 0
            failing = len(self.calls) == self._fails_at
            if failing and not self._arrives:
                raise self._error
            answer = method(*arguments, **options)
            if failing:
                raise self._error
            return answer

        return call


def failing(store, fails_at, *, arrives, error):
    other = object.__new__(Opened)
    other.address, other._client = store.address, Failing(store._client, fails_at, arrives=arrives, error=error)
    return other


def brought(store, seen, status="FINISHED"):
    sync = Sync(store, seen.study)
    sync.bring(seen, status)
    return sync


def calls_of(store, seen):
    """The calls that a whole study takes."""
    counting = failing(store, -1, arrives=False, error=None)
    brought(counting, seen)
    return counting._client.calls


@pytest.mark.parametrize("arrives", [False, True], ids=["not-carried-out", "carried-out"])
def test_a_writer_killed_at_any_call_is_completed_by_another(store, home, arrives):
    calls = calls_of(store, made_up(3, study=f"whole-{arrives}", seed=11))
    assert {"create_experiment", "create_run", "log_batch", "set_terminated", "set_experiment_tag"} <= set(calls)
    for moment in range(1, len(calls) + 1):
        seen = made_up(3, study=f"killed-{arrives}-{moment}", seed=11)
        with pytest.raises(Killed):
            brought(failing(store, moment, arrives=arrives, error=Killed()), seen)
        brought(store, seen)
        assert_level(database_of(home), seen)


@pytest.mark.parametrize("arrives", [False, True], ids=["request-lost", "answer-lost"])
def test_the_same_writer_goes_on_after_any_call_that_failed(store, home, arrives):
    calls = calls_of(store, made_up(3, study=f"unbroken-{arrives}", seed=11))
    for moment in range(1, len(calls) + 1):
        seen = made_up(3, study=f"lost-{arrives}-{moment}", seed=11)
        broken = failing(store, moment, arrives=arrives, error=ConnectionError("broken"))
        sync = None
        for _ in range(2):
            try:
                sync = sync or Sync(broken, seen.study)
                sync.bring(seen, "FINISHED")
            except Away:
                continue
        assert_level(database_of(home), seen)


def test_a_long_study_killed_between_two_batches_of_its_progress_is_completed(store, home, study):
    """A batch has room for the progress of about 200 trials."""
    seen = made_up(230, study=study)
    seen = replace(seen, front=())
    only_progress = replace(seen, trials=seen.trials)
    for moment, arrives in ((3, True), (4, False), (4, True)):
        named = replace(only_progress, study=f"{study}-{moment}-{arrives}", identity=f"{study}-{moment}-{arrives}")
        with pytest.raises(Killed):
            brought(failing(store, moment, arrives=arrives, error=Killed()), named)
        sync = Sync(store, named.study)
        sync._progress(named, sync._above(named))
        (above,), _ = rows(database_of(home), named.identity)
        assert len(above.metrics) > MOST_METRICS
        assert sorted(step for name, _, _, step in above.metrics if name == "trials") == list(range(1, 231))


def test_writing_again_changes_nothing(store, home, study):
    seen = made_up(12, study=study, seed=2)
    first = brought(store, seen)
    before = rows(database_of(home), seen.identity)
    again = failing(store, -1, arrives=False, error=None)
    second = brought(again, seen)
    assert again._client.calls == ["set_experiment_tag"]
    assert rows(database_of(home), seen.identity) == before
    assert (second.experiment, second.run) == (first.experiment, first.run)
    first.bring(seen, "FINISHED")
    assert rows(database_of(home), seen.identity) == before


def test_a_study_that_grows_is_followed_with_as_little_as_is_new(store, home, study):
    """Front, marks and confirmations change with it."""
    looks = [
        made_up(count, study=study, seed=5, confirm=confirm) for count, confirm in ((0, 0), (3, 0), (9, 1), (25, 3))
    ]
    assert len({tuple(member.number for member in look.front) for look in looks}) == 4
    left = {member.number for member in looks[2].front} - {member.number for member in looks[3].front}
    assert left, "a member that is overtaken"
    counting = failing(store, -1, arrives=False, error=None)
    sync = Sync(counting, study)
    for position, look in enumerate(looks):
        last = position + 1 == len(looks)
        sync.bring(look, "FINISHED" if last else "RUNNING")
        assert_level(database_of(home), look, "FINISHED" if last else "RUNNING", earlier=looks[:position])
    parents, children = rows(database_of(home), looks[-1].identity)
    assert counting._client.values == sum(len(run.metrics) for runs in (parents, *children.values()) for run in runs)


def test_a_study_that_is_resumed_runs_again_and_ends_again(store, home, study):
    first, second = made_up(6, study=study, seed=5), made_up(14, study=study, seed=5, confirm=4)
    brought(store, first, "KILLED")
    assert_level(database_of(home), first, "KILLED")
    brought(store, second, "RUNNING")
    assert_level(database_of(home), second, "RUNNING", earlier=[first])
    brought(store, second)
    assert_level(database_of(home), second, earlier=[first])


def test_runs_made_twice_are_cleared_away_and_the_complete_ones_stay(store, home, study):
    seen = made_up(6, study=study, seed=5)
    sync = brought(store, seen)
    url = database_of(home)
    kept = assert_level(url, seen).id
    for trial in seen.trials[:3]:
        store.create(sync.experiment, child(trial, seen), kept)
    for _ in range(2):
        store.create(sync.experiment, parent(seen, status="RUNNING", note=""))
    assert len(rows(url, seen.identity)[0]) == 3
    brought(store, seen)
    assert_level(url, seen)


def test_children_belong_to_the_parent_that_stays(store, home, study):
    """Whichever of two parents that is."""
    seen = made_up(4, study=study, seed=5)
    url = database_of(home)
    sync = Sync(store, study)
    later = parent(seen, status="RUNNING", note="")
    sync.bring(replace(seen, trials=(), front=()), "RUNNING")  # its time is now: made before the first trial
    sync.bring(seen, "RUNNING")
    store.create(sync.experiment, later)
    store.create(sync.experiment, replace(later, began=later.began + 10**15))
    brought(store, seen)
    assert_level(url, seen)


def test_a_child_that_was_left_running_is_completed(store, home, study):
    seen = made_up(4, study=study, seed=5)
    sync = Sync(store, study)
    sync.bring(replace(seen, trials=seen.trials[:1], front=()), "RUNNING")
    store.create(sync.experiment, child(seen.trials[1], seen), sync.run)
    half = store.create(sync.experiment, child(seen.trials[2], seen), sync.run)
    store.log(half.id, child(seen.trials[2], seen).metrics[:1])
    brought(store, seen)
    assert_level(database_of(home), seen)


def test_runs_deleted_by_hand_are_written_again(store, home, study):
    seen = made_up(4, study=study, seed=5)
    brought(store, seen)
    parents, children = rows(database_of(home), seen.identity)
    store.delete(children[2][0].id)
    brought(store, seen)
    assert_level(database_of(home), seen)
    store.delete(parents[0].id)
    brought(store, seen)
    assert_level(database_of(home), seen)


def test_studies_of_one_name_are_kept_apart(store, home, study):
    one, other = (made_up(3, study=study, seed=seed, identity=f"{study}-{seed}") for seed in (1, 2))
    first, second = brought(store, one), brought(store, other)
    assert first.experiment == second.experiment
    assert first.run != second.run
    assert_level(database_of(home), one)
    assert_level(database_of(home), other)


def test_a_check_finds_what_came_late(store, home, study):
    """A request that the server carried out after everything had been looked up."""
    seen = made_up(4, study=study, seed=5)
    sync = brought(store, seen)
    store.create(sync.experiment, child(seen.trials[0], seen), sync.run)
    store.create(sync.experiment, replace(parent(seen, status="RUNNING", note=""), began=10**15))
    sync.check(seen)
    assert_level(database_of(home), seen)


def test_every_kind_of_study_is_taken(store, home, study):
    """Three objectives, folds, a reason of any length, numbers that are none."""
    settings = replace(made_up(0).settings, metric="balanced-accuracy", third="size", folds=3)
    seen = made_up(8, study=study, seed=6, settings=settings)
    trials = list(seen.trials)
    broken = replace(trials[1].result, state="failed", reason="x" * 20_000, costs={"cpu": math.inf}, score=math.nan)
    trials[1] = replace(trials[1], state="failed", result=broken, values=())
    best = tuple(member for member in seen.front if member.number != 1)
    seen = replace(seen, trials=tuple(trials), front=best)
    brought(store, seen)
    brought(store, seen)
    assert_level(database_of(home), seen)


def test_a_front_of_hundreds_and_a_space_of_hundreds_of_names(store, home, study):
    names = {f"parameter-{number}": number / 7 for number in range(150)}
    seen = made_up(2, study=study, seed=5)
    trials = tuple(replace(trial, parameters=names) for trial in seen.trials)
    member = Member(0, names, (0.123456, 789.0), found=(0.123456, 789.0))
    seen = replace(seen, trials=trials, front=(member,) * 400)
    sync = brought(store, seen)
    (above,), children = rows(database_of(home), seen.identity)
    assert above.status == "FINISHED"
    assert len(children[0][0].params) == 151
    sync.bring(seen, "FINISHED")


def test_a_deleted_experiment_is_a_message(store, study):
    sync = brought(store, made_up(2, study=study))
    store._client.delete_experiment(sync.experiment)
    with pytest.raises(
        TrackingError, match=f"'{experiment_name(study)}' was deleted in MLflow at embedded: restore it"
    ):
        Sync(store, study)
    store._client.restore_experiment(sync.experiment)
    brought(store, made_up(2, study=study))


def test_a_real_study_and_its_continuation(store, home, tmp_path, study):
    toy(tmp_path, trials=10, study=study)
    first = looked_up(tmp_path, study)
    brought(store, first)
    assert_level(database_of(home), first)
    toy(tmp_path, trials=30, study=study, confirm=3)
    second = looked_up(tmp_path, study)
    assert len(second.trials) == 30
    brought(store, second)
    assert_level(database_of(home), second, earlier=[first])


def test_the_report_counts_up_to_the_whole(store, study):
    seen, told = made_up(5, study=study, seed=5), []
    Sync(store, study).bring(seen, "FINISHED", lambda done, total: told.append((done, total)))
    assert told == [(done, 5) for done in range(6)]


def test_tags_that_identify_runs_are_there_from_the_first_call(store, home, study):
    """Otherwise a run whose answer was lost could not be found again."""
    seen = made_up(3, study=study, seed=5)
    with pytest.raises(Killed):
        brought(failing(store, 2, arrives=True, error=Killed()), seen)
    (above,), children = rows(database_of(home), seen.identity)
    assert above.tags[STUDY] == seen.identity
    assert not children
    moment = calls_of(store, made_up(3, study=f"{study}-calls", seed=5)).index("create_run", 2) + 1
    with pytest.raises(Killed):
        brought(failing(store, moment - 1, arrives=True, error=Killed()), seen)
    _, children = rows(database_of(home), seen.identity)
    ((number, (run,)),) = children.items()
    assert run.tags[TRIAL] == str(number)
    assert run.tags[PARENT] == above.id
    assert run.tags["pareto"] in ("true", "false")


def test_one_writer_at_a_time(tmp_path):
    with held(tmp_path, "toy", wait=lambda: False):
        with (
            pytest.raises(TrackingBusy, match="another process is writing the study 'toy'"),
            held(tmp_path, "toy", wait=lambda: False),
        ):
            pass
        with held(tmp_path, "other", wait=lambda: False):
            pass
    with held(tmp_path, "toy", wait=lambda: False):
        pass


def test_a_writer_waits_as_long_as_it_is_told_to(tmp_path):
    first = held(tmp_path, "toy", wait=lambda: False)
    first.__enter__()
    asked = []

    def wait():
        asked.append(True)
        if len(asked) == 3:
            first.__exit__(None, None, None)
        return True

    with held(tmp_path, "toy", wait=wait):
        assert len(asked) == 3


def test_a_folder_that_cannot_be_written_is_a_message(tmp_path):
    (tmp_path / "tracking").write_text("a file")
    with pytest.raises(TrackingError, match=r"cannot write to .*tracking"), held(tmp_path, "toy", wait=lambda: False):
        pass
