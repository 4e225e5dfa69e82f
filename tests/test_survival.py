"""A study survives its driver: kill -9, signals, a full disk; the same command again completes it."""

import json
import os
import random
import signal
import subprocess

import pytest
from prepared import prepared
from running import Command, assert_whole, eventually, lines, loaded, run

from workflows.study.ledger import DRIVER_DIED, INTERRUPTED
from workflows.study.storages import journal_file

pytestmark = pytest.mark.compiled_only
SECONDS_UNTIL_WORKERS_ARE_GONE = 30
SECONDS_UNTIL_RAY_IS_GONE = 150
"""Two idle agents of Ray try for a minute to tell the others, which are gone, that they are."""


@pytest.fixture
def board(tmp_path):
    """Demo data, prepared once for all runs of a test."""
    prepared(tmp_path / "board", rows=2000)
    return tmp_path


def tune(*options):
    return ("tune", "board", "--workers", "0", "--confirm", "1", *map(str, options))


def test_ten_times_killed_at_random_moments(board):
    """And looked at in between."""
    moments = random.Random(7)
    # TPE never proposes the same twice; NSGA-II, which `auto` may change to, now and then breeds a copy.
    command, path = tune("--trials", 150, "--sampler", "tpe"), journal_file(board / "mmbsgd-home", "board")
    for _ in range(10):
        running, begun = Command(*command, cwd=board), lines(path)
        target = begun + moments.randrange(1, 40)
        running.until(lambda target=target: lines(path) >= target)
        running.kill()
    path.write_bytes(path.read_bytes() + b'{"op_code":5,"worker_')  # a crash of the machine may cut a line off
    code, output, errors = run("front", "board", cwd=board)
    assert code == 0, errors
    assert "unconfirmed Pareto front" in output
    code, output, errors = run(*command, cwd=board)
    assert code == 0, errors
    assert "150 trials complete, 0 stopped early, 0 failed" in output
    reasons = assert_whole(path, "board", 150)
    assert set(reasons) == {DRIVER_DIED}
    assert len(reasons) <= 10
    known = len(loaded(path, "board")[0])
    code, output, errors = run(*command, "--json", cwd=board)
    assert code == 0, errors
    assert json.loads(output)["trials"] == {"complete": 150, "stopped": 0, "failed": 0, "retries": 0}
    assert len(loaded(path, "board")[0]) == known


def test_a_study_in_sqlite_survives_three_kills(board):
    moments, url = random.Random(8), f"sqlite:///{board}/studies.db"
    command = tune("--trials", 40, "--storage", url, "--sampler", "random")
    for _ in range(3):
        running = Command(*command, cwd=board)
        # The changes of a transaction go through this file.
        changes = moments.randrange(5, 40)
        seen = set()

        def happened(seen=seen, changes=changes):
            if (board / "studies.db").exists():
                seen.add((board / "studies.db").stat().st_mtime_ns)
            return len(seen) >= changes

        running.until(happened)
        running.kill()
    code, _, errors = run(*command, cwd=board)
    assert code == 0, errors
    assert set(assert_whole(url, "board", 40)) <= {DRIVER_DIED}


def test_workers_on_ray_go_with_a_killed_driver_and_the_study_goes_on(board):
    command = ("tune", "board", "--workers", "2", "--confirm", "0", "--sampler", "random", "--json", "--trials")
    path = journal_file(board / "mmbsgd-home", "board")
    killed = Command(*command, 100_000, cwd=board)
    killed.until(lambda: lines(path) > 20)
    assert len(killed.family()) > 2
    killed.kill()
    eventually(lambda: len(killed.family()) <= 2, SECONDS_UNTIL_WORKERS_ARE_GONE)
    begun = lines(path)
    running = Command(*command, 100_000, cwd=board)
    running.until(lambda: lines(path) > begun + 20)
    running.process.terminate()
    code, output, errors = running.end()
    assert code == 130, (output, errors)
    assert "Run the same command again" in errors
    assert "Traceback" not in errors + output
    trials = json.loads(output)["trials"]["complete"] + 20
    code, output, errors = run(*command, trials, cwd=board)
    assert code == 0, errors
    assert json.loads(output)["trials"]["complete"] == trials
    reasons = set(assert_whole(path, "board", trials))
    assert {DRIVER_DIED} <= reasons <= {DRIVER_DIED, INTERRUPTED}
    eventually(lambda: not running.family() and not killed.family(), SECONDS_UNTIL_RAY_IS_GONE)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_study_and_the_same_command_goes_on(board, ending):
    """To the whole process group, as a terminal sends it."""
    path = journal_file(board / "mmbsgd-home", "board")
    running = Command(*tune("--trials", 100_000, "--sampler", "random", "--json"), cwd=board)
    running.until(lambda: lines(path) > 20)
    os.killpg(running.process.pid, ending)
    code, output, errors = running.end()
    assert code == 130, errors
    assert "Interrupted. Run the same command again: the study goes on where it stopped." in errors
    assert "Traceback" not in errors
    said = json.loads(output)
    assert said["interrupted"]
    assert said["front"]
    done = said["trials"]["complete"]
    code, output, errors = run(*tune("--trials", done + 5, "--sampler", "random"), cwd=board)
    assert code == 0, errors
    assert f"{done + 5} trials complete" in output
    assert set(assert_whole(path, "board", done + 5)) <= {INTERRUPTED}


def test_a_full_disk_is_a_message_and_with_room_the_same_command_completes(board):
    disk = board / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"needs root, to mount a small disk: {mounted.stderr}")
    try:
        command = tune("--trials", 80, "--sampler", "random", "--home", disk)
        code, output, errors = run(*command, cwd=board)
        assert code == 2, (output, errors)
        assert "board.journal: No space left on device; make room and run the same command again" in errors
        assert "Traceback" not in errors + output
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        code, output, errors = run(*command, cwd=board)
        assert code == 0, errors
        assert_whole(journal_file(disk, "board"), "board", 80)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
