"""Studies that have ended are written to MLflow by one process; what goes wrong there is told and stops nothing."""

import os
import signal

import pytest
from mlflow_servers import free_port
from running import toy
from tracked import assert_level, database_of, looked_up, quiet, with_database

from workflows.tracking.address import address
from workflows.tracking.afterwards import Afterwards

pytestmark = [quiet, pytest.mark.compiled_only]


@pytest.fixture
def home(tmp_path):
    return with_database(tmp_path)


def writer_of(home, uri=None):
    return Afterwards(home, None, address(uri, home))


def test_every_study_is_written_whole_and_progress_is_told(home):
    names, told = ("first", "second", "third"), []
    writer = writer_of(home)
    for name in names:
        toy(home, study=name, trials=8, confirm=0)
        writer.write(name)
    assert writer.finish(lambda done, total: told.append((done, total)))
    assert told[-1] == (3, 3)
    for name in names:
        assert_level(database_of(home), looked_up(home, name))


def test_written_again_nothing_is_there_twice(home):
    toy(home, study="twice", trials=5, confirm=0)
    for _ in range(2):
        writer = writer_of(home)
        writer.write("twice")
        assert writer.finish(lambda done, total: None)
    assert_level(database_of(home), looked_up(home, "twice"))


def test_without_a_study_it_just_ends(home):
    assert writer_of(home).finish(lambda done, total: None)


def test_an_mlflow_that_is_away_is_a_reason_and_no_trouble(home):
    toy(home, study="away", trials=3, confirm=0)
    writer = writer_of(home, f"http://127.0.0.1:{free_port()}")
    writer.write("away")
    assert not writer.finish(lambda done, total: None)
    assert "refused" in writer.reason


def test_a_process_that_was_killed_leaves_the_rest_to_another(home):
    toy(home, study="killed", trials=3, confirm=0)
    writer = writer_of(home)
    os.kill(writer._process.pid, signal.SIGKILL)
    writer.write("killed")
    assert not writer.finish(lambda done, total: None)
    again = writer_of(home)
    again.write("killed")
    assert again.finish(lambda done, total: None)
    assert_level(database_of(home), looked_up(home, "killed"))


def test_whoever_does_not_want_to_wait_leaves_it_at_work(home):
    toy(home, study="later", trials=3, confirm=0)
    writer = writer_of(home)
    writer.write("later")
    assert not writer.finish(lambda done, total: None, wait=lambda: False)
    assert writer.finish(lambda done, total: None), "it went on by itself"
    assert_level(database_of(home), looked_up(home, "later"))
