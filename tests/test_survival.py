"""A study survives signals, a full disk, and a driver on Ray that is killed; the same command again completes it."""

import json
import os
import signal
import subprocess

import pytest
from running import Command, assert_whole, eventually, lines, run, tune_board

from workflows.study.ledger import DRIVER_DIED, INTERRUPTED
from workflows.study.storages import journal_file

pytestmark = pytest.mark.compiled_only
SECONDS_UNTIL_WORKERS_ARE_GONE = 30
MOST_AGENTS = 2
"""Idle ones of Ray, which try for more than a minute to tell the others, which are gone, that they are."""


@pytest.mark.long
def test_workers_on_ray_go_with_a_killed_driver_and_the_study_goes_on(board):
    command = (
        "tune",
        "board",
        "--no-tracking",
        "--workers",
        "2",
        "--confirm",
        "0",
        "--sampler",
        "random",
        "--json",
        "--trials",
    )
    path = journal_file(board / "mmbsgd-home", "board")
    killed = Command(*command, 100_000, cwd=board)
    killed.until(lambda: lines(path) > 20)
    assert len(killed.family()) > MOST_AGENTS
    killed.kill()
    eventually(lambda: len(killed.family()) <= MOST_AGENTS, SECONDS_UNTIL_WORKERS_ARE_GONE)
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
    eventually(lambda: not running.family(), SECONDS_UNTIL_WORKERS_ARE_GONE)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_study_and_the_same_command_goes_on(board, ending):
    """To the whole process group, as a terminal sends it."""
    path = journal_file(board / "mmbsgd-home", "board")
    running = Command(*tune_board("--trials", 100_000, "--sampler", "random", "--json"), cwd=board)
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
    code, output, errors = run(*tune_board("--trials", done + 5, "--sampler", "random"), cwd=board)
    assert code == 0, errors
    assert f"{done + 5} trials complete" in output
    assert set(assert_whole(path, "board", done + 5)) <= {INTERRUPTED}


def test_a_full_disk_is_a_message_and_with_room_the_same_command_completes(board, disk):
    command = tune_board("--trials", 80, "--sampler", "random", "--home", disk)
    code, output, errors = run(*command, cwd=board)
    assert code == 2, (output, errors)
    assert "board.journal: No space left on device; make room and run the same command again" in errors
    assert "Traceback" not in errors + output
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    code, output, errors = run(*command, cwd=board)
    assert code == 0, errors
    assert_whole(journal_file(disk, "board"), "board", 80)
