"""The process that writes a study to MLflow: killed or left alone, it leaves nothing that cannot be completed."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing

import pytest
from mlflow_servers import HOST, free_port, silent_port
from running import PATIENCE, Command, eventually, lines, toy
from tracked import (
    Opened,
    artifact_folder,
    artifacts,
    assert_level,
    assert_published,
    database_of,
    looked_up,
    made_up,
    quiet,
    with_database,
)

from workflows.commands.sync import bring
from workflows.errors import TrackingError
from workflows.study.storages import journal_file
from workflows.tracking import background as waiting
from workflows.tracking import sender as sending
from workflows.tracking.address import address
from workflows.tracking.background import Background
from workflows.tracking.lock import held
from workflows.tracking.sender import LONGEST_PAUSE, PAUSE, Orders, Sender, give_way, keep_up, pause_after, serve
from workflows.tracking.store import Away

pytestmark = quiet


@pytest.fixture
def home(tmp_path):
    return with_database(tmp_path / "home")


def sync(home, study="toy"):
    seen = looked_up(home, study)
    bring(seen, address(None, home), home, None)
    return seen


def count_of(home):
    """How many runs there are by now."""
    with closing(sqlite3.connect(home / "mlflow.db", timeout=PATIENCE)) as database:
        return database.execute("SELECT count(*) FROM runs").fetchone()[0]


@pytest.mark.parametrize("runs", [1, 9])
def test_a_killed_sender_is_no_harm_to_the_study_and_is_made_up_for(home, runs):
    """Once it has made its first run, and in the middle of the trials."""
    warnings = []
    sender = Background("toy", home, None, address(None, home), lambda *said: warnings.append(said))

    def kill():
        eventually(lambda: count_of(home) >= runs)
        sender._process.kill()

    with sender:
        sender.start()
        outcome = toy(home, trials=40, events={20: kill})
        tracked = sender.finish(40, interrupted=False, report=lambda done, total: None)
    assert outcome.progress.complete == 40
    assert tracked.reason == "the process that writes it broke down"
    assert warnings == []
    above = assert_level(database_of(home), sync(home))
    assert_published(artifacts(above))


DRIVER = """
import sys, time
from pathlib import Path
from running import toy
from workflows.tracking.address import address
from workflows.tracking.background import Background

home = Path(sys.argv[1])
with Background("toy", home, None, address(None, home), print) as sender:
    sender.start()
    print(sender._process.pid, flush=True)
    toy(home, trials=30, events={20: lambda: time.sleep(1000)})
"""


def alive(number):
    try:
        with open(f"/proc/{number}/stat") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_sender_whose_driver_is_killed_writes_what_there_is_and_ends(home):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(home)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.path.dirname(__file__)},
    )
    with driver:
        try:
            number = int(driver.stdout.readline())
            eventually(lambda: count_of(home) >= 3)
        finally:
            driver.kill()
    eventually(lambda: not alive(number))
    seen = looked_up(home)
    assert 2 <= len(seen.trials) < 20
    above = assert_level(database_of(home), seen, "KILLED")
    assert_published(artifacts(above))
    toy(home, trials=30)
    assert_level(database_of(home), sync(home), earlier=[seen])


def test_two_syncs_at_the_same_time_write_everything_once(home):
    toy(home, trials=15)
    commands = [Command("sync", "toy", "--home", home, cwd=home) for _ in range(2)]
    ended = [command.end() for command in commands]
    assert [code for code, _, _ in ended] == [0, 0], ended
    above = assert_level(database_of(home), looked_up(home))
    assert all(f"MLflow (embedded) has all 15 trials of toy: run {above.id}" in output for _, output, _ in ended)


@pytest.mark.compiled_only
def test_a_command_that_is_interrupted_leaves_a_run_that_says_so(board):
    home = with_database(board / "home")
    options = ("--workers", 0, "--confirm", 1, "--sampler", "random", "--trials", 100_000, "--home", home)
    running = Command("tune", "board", *options, cwd=board)
    running.until(lambda: lines(journal_file(home, "board")) > 100)
    os.killpg(running.process.pid, signal.SIGINT)
    code, output, errors = running.end()
    assert code == 130, (output, errors)
    assert "Traceback" not in output + errors
    eventually(lambda: not running.family())
    seen = looked_up(home, "board")
    above = assert_level(database_of(home), seen, "KILLED")
    assert above.tags["tracking"] == "embedded"
    assert above.tags["version.mlflow"]


@pytest.mark.compiled_only
def test_a_command_without_its_mlflow_succeeds_with_one_warning(board):
    where = f"http://{HOST}:{free_port()}"
    options = ("--workers", 0, "--confirm", 1, "--trials", 5, "--home", board / "home", "--tracking-uri", where)
    running = Command("tune", "board", *options, cwd=board)
    code, output, errors = running.end()
    assert code == 0, (output, errors)
    assert "5 trials complete" in output
    assert (output + errors).count("does not answer") <= 1
    assert f"MLflow ({where}) has nothing of the study yet" in output
    assert "Traceback" not in output + errors
    eventually(lambda: not running.family())


@pytest.mark.compiled_only
def test_a_second_interruption_ends_a_command_that_waits_for_mlflow(board):
    with silent_port() as port:
        home = board / "home"
        options = ("--workers", 0, "--confirm", 0, "--trials", 3, "--home", home)
        running = Command("tune", "board", *options, "--tracking-uri", f"http://{HOST}:{port}", cwd=board)
        running.until(lambda: journal_file(home, "board").exists() and len(looked_up_early(home)) == 3)
        os.kill(running.process.pid, signal.SIGINT)
        assert any("once more to end at once" in line for line in running.process.stdout)
        os.kill(running.process.pid, signal.SIGINT)
        code, output, errors = running.end()
        assert code == 130
        assert "Traceback" not in output + errors
    eventually(lambda: not running.family())
    assert len(looked_up(home, "board").trials) == 3


def looked_up_early(home):
    from workflows.errors import StudyError

    try:
        return looked_up(home, "board").trials
    except StudyError:
        return []


class Script(Orders):
    """Orders that come one after the other, each after a number of pauses."""

    def __init__(self, *orders):
        super().__init__(source=-1)
        self._orders = list(orders)

    def waiting(self, seconds):
        return True

    def next(self, seconds):
        if not self._orders:
            self.gone = True
            return None
        return self._orders.pop(0)


class Scripted:
    """A sender whose writing fails as it is told: with Away, or not."""

    fates = ()

    def __init__(self, *_):
        self.fates, self.acts, self.run = list(type(self).fates), [], ("7", "abc")
        type(self).last = self

    def look(self):
        return made_up(2)

    def bring(self, seen, status, report):
        self.acts.append(status)
        if self.fates and self.fates.pop(0):
            raise Away("gone")
        report(len(seen.trials), len(seen.trials))

    finish = bring


def served(monkeypatch, home, fates, *orders):
    monkeypatch.setattr(Scripted, "fates", fates)
    monkeypatch.setattr(sending, "Sender", Scripted)
    said = []
    first = {"study": "toy", "home": str(home), "storage": None, "address": address(None, home).as_dict()}
    serve(Script(first, *orders), lambda **message: said.append(message))
    return Scripted.last.acts, [message for message in said if "done" not in message]


FINISHED, NOTHING = {"status": "FINISHED"}, None


def test_one_failure_is_not_worth_a_word(monkeypatch, tmp_path):
    acts, said = served(monkeypatch, tmp_path, [True, False], NOTHING, NOTHING, FINISHED)
    assert said == [{"experiment": "7", "run": "abc"}]
    assert acts == ["RUNNING", "RUNNING", "RUNNING", "FINISHED"]


def test_a_server_that_goes_and_comes_is_said_once_each(monkeypatch, tmp_path):
    fates = [False, True, True, True, True, False]
    _, said = served(monkeypatch, tmp_path, fates, *[NOTHING] * 6, FINISHED)
    assert said == [{"away": "gone"}, {"back": True}, {"experiment": "7", "run": "abc"}]


def test_a_server_that_stays_away_at_the_end_is_given_up(monkeypatch, tmp_path):
    acts, said = served(monkeypatch, tmp_path, [True] * 100, FINISHED)
    assert said == [{"away": "gone"}]
    assert acts.count("FINISHED") <= 2


def test_without_a_driver_the_study_counts_as_killed(monkeypatch, tmp_path):
    acts, _ = served(monkeypatch, tmp_path, [], NOTHING)
    assert acts[-1] == "KILLED"


def test_the_end_of_the_study_hurries_what_is_being_written(monkeypatch, tmp_path):
    """Starved by trials, a sender may be in the middle of something for minutes."""
    hurried = threading.Event()

    class Slow(Scripted):
        def bring(self, seen, status, report):
            assert hurried.wait(PATIENCE)

        finish = bring

    monkeypatch.setattr(sending, "Sender", Slow)
    first = {"study": "toy", "home": str(tmp_path), "storage": None, "address": address(None, tmp_path).as_dict()}
    source, driver = os.pipe()
    with os.fdopen(source), os.fdopen(driver, "wb", buffering=0) as pipe:
        pipe.write(json.dumps(first).encode() + b"\n")
        serving = threading.Thread(target=serve, args=(Orders(source), lambda **_: None, hurried.set))
        serving.start()
        pipe.write(json.dumps(FINISHED).encode() + b"\n")
        serving.join(PATIENCE)
        assert not serving.is_alive()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="priorities of threads are Linux's")
def test_a_thread_that_gave_way_keeps_up_again():
    ready, go_on = threading.Event(), threading.Event()
    found = []

    def work():
        give_way()
        found.append(os.sched_getscheduler(0))
        ready.set()
        go_on.wait(PATIENCE)
        found.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(PATIENCE)
    keep_up()
    go_on.set()
    thread.join()
    assert found == [os.SCHED_IDLE, os.SCHED_OTHER]


def test_a_server_gets_a_tenth_of_this_machines_time_while_trials_run():
    """It may be on this machine. The embedded database is written by the sender itself, which is nice."""
    assert pause_after(0.0, 2.0, server=True, cores=2) == pytest.approx(8.0)
    assert pause_after(0.0, 2.0, server=True, cores=64) == PAUSE
    assert pause_after(0.0, 2.0, server=False, cores=2) == PAUSE
    assert pause_after(2.0, 0.0, server=False, cores=2) == pytest.approx(8.0)
    assert pause_after(0.0, 1000.0, server=True, cores=2) == LONGEST_PAUSE


def test_the_current_front_is_there_while_the_study_runs(monkeypatch, home):
    monkeypatch.setattr(sending, "SECONDS_BETWEEN_FRONTS", 0.0)
    monkeypatch.setattr(sending, "Store", Opened)
    sender = Sender("made-up", home, None, address(None, home))
    fronts, looks = [], []
    for count in (20, 20, 60):
        seen = made_up(count)
        sender.bring(seen, "RUNNING")
        above = assert_level(database_of(home), seen, "RUNNING", earlier=looks)
        looks.append(seen)
        folder = artifact_folder(above)
        assert artifacts(above) == {"pareto.html", "front.csv", "front.parquet"}
        fronts.append((folder / "front.csv").stat())
        with (folder / "front.csv").open() as table:
            numbers = [member["number"] for member in csv.DictReader(table)]
        assert numbers == [str(member.number) for member in seen.front]
    assert fronts[0].st_mtime_ns == fronts[1].st_mtime_ns, "it was drawn again without need"
    assert fronts[1].st_size != fronts[2].st_size
    sender._sync._store.close()


def test_a_server_that_says_nothing_is_not_waited_for_to_the_end(monkeypatch, home):
    monkeypatch.setattr(waiting, "LOOK", 0.5)
    with silent_port() as port:
        sender = Background("toy", home, None, address(f"http://{HOST}:{port}", home), lambda *said: None)
        with sender:
            sender.start()
            toy(home, trials=7)
            tracked = sender.finish(7, interrupted=False, report=lambda done, total: None, patience=PATIENCE)
    assert (tracked.done, tracked.total, tracked.follows) == (0, 7, True)
    assert tracked.waited < PATIENCE
    sender._process.kill()
    sender._process.wait()


def test_a_study_that_another_process_writes_is_left_to_it(monkeypatch, tmp_path):
    monkeypatch.setattr(sending, "LONGEST_WAIT", 0.0)
    with held(tmp_path, "toy", wait=lambda: False), pytest.raises(TrackingError, match="another process is writing"):
        served(monkeypatch, tmp_path, [], FINISHED)


def test_a_process_that_an_earlier_driver_left_behind_is_waited_for(monkeypatch, tmp_path):
    with ExitStack() as other:
        other.enter_context(held(tmp_path, "toy", wait=lambda: False))

        def wait():
            other.close()
            return True

        monkeypatch.setattr(sending, "patience", lambda seconds: wait)
        _, said = served(monkeypatch, tmp_path, [], FINISHED)
    assert said == [{"experiment": "7", "run": "abc"}]


def test_orders_are_lines_and_an_end():
    source, driver = os.pipe()
    try:
        orders = Orders(source)
        assert orders.next(0.0) is None
        os.write(driver, b'{"a": 1}\n{"b"')
        assert orders.next(PATIENCE) == {"a": 1}
        os.write(driver, b": 2}\n")
        assert orders.next(PATIENCE) == {"b": 2}
        assert not orders.gone
        os.close(driver)
        assert orders.next(PATIENCE) is None
        assert orders.gone
    finally:
        os.close(source)
