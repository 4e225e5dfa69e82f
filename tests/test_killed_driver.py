"""A driver is killed again and again: the same command completes the study, and what it left is tried again."""

import json
import random

import pytest
from running import Command, assert_whole, lines, loaded, run, tune_board

from workflows.study.ledger import DRIVER_DIED
from workflows.study.storages import journal_file

pytestmark = pytest.mark.compiled_only


@pytest.mark.long
def test_ten_times_killed_at_random_moments(board):
    """And looked at in between."""
    moments = random.Random(7)
    command, path = tune_board("--trials", 150, "--sampler", "tpe"), journal_file(board / "mmbsgd-home", "board")
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


@pytest.mark.long
def test_a_study_in_sqlite_survives_three_kills(board):
    moments, url = random.Random(8), f"sqlite:///{board}/studies.db"
    command = tune_board("--trials", 40, "--storage", url, "--sampler", "random")
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
