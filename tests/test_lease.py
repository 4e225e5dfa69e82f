"""A study belongs to one driver: a second is refused, a dead one replaced, and one that was away finds out in time."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from running import SETTINGS, SPACE, assert_whole, eventually, loaded, toy
from sqlalchemy import text

from workflows.errors import StudyError
from workflows.study import lease as leases
from workflows.study.lease import KEY, Lease
from workflows.study.ledger import DRIVER_DIED
from workflows.study.storages import open_storage
from workflows.study.tuning import Watcher, held


@pytest.fixture
def url(tmp_path):
    """A database with a study that nobody owns."""
    url = f"sqlite:///{tmp_path}/studies.db"
    with held("toy", tmp_path, url, SETTINGS, SPACE, Watcher()):
        pass
    return url


@pytest.fixture
def make(url, tmp_path):
    """Makes leases on that study, each with a connection of its own."""
    made = []

    def lease(**options):
        opened = open_storage(url, tmp_path, "toy")
        made.append((opened, Lease(opened.storage.engine, opened.find("toy"), "toy", **options)))
        return made[-1][1]

    yield lease
    for opened, one in made:
        one.release() if one._keeper.ident else None
        opened.close()


def owner(url):
    return loaded(url, "toy")[1][KEY]


def change_owner(url, tmp_path, **changes):
    opened = open_storage(url, tmp_path, "toy")
    with opened.storage.engine.begin() as connection:
        changed = json.dumps(owner(url) | changes)
        connection.execute(
            text("UPDATE study_user_attributes SET value_json = :x WHERE key = 'driver'"), {"x": changed}
        )
    opened.close()


def test_a_second_driver_is_refused_by_name(url, make):
    make().take()
    with pytest.raises(
        StudyError, match=rf"another driver runs the study 'toy' \(process {os.getpid()} on .*wait for it"
    ):
        make().take()


@pytest.mark.parametrize("owned_before", [True, False])
def test_of_two_drivers_that_reach_for_a_study_at_the_same_time_one_gets_it(url, make, tmp_path, owned_before):
    """The other has taken it between this one's look and its grasp."""
    if not owned_before:
        opened = open_storage(url, tmp_path, "toy")
        with opened.storage.engine.begin() as connection:
            connection.execute(text("DELETE FROM study_user_attributes WHERE key = 'driver'"))
        opened.close()
    first, second = make(), make()
    read, others = second._read, iter([first.take])

    def slowly(connection):
        found = read(connection)
        next(others, lambda: None)()
        return found

    second._read = slowly
    with pytest.raises(StudyError, match="another driver runs the study 'toy'"):
        second.take()
    assert owner(url)["id"] == first._id
    first.check()


def test_a_lease_is_released_and_taken_again(url, make):
    first = make()
    first.take()
    assert owner(url)["pid"] == os.getpid()
    first.release()
    assert owner(url) is None
    make().take()


def test_a_study_that_ends_leaves_no_owner(url, tmp_path):
    toy(tmp_path, url)
    assert owner(url) is None


def test_a_study_that_fails_leaves_no_owner(url, tmp_path):
    def fail():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        toy(tmp_path, url, events={3: fail})
    assert owner(url) is None
    toy(tmp_path, url)
    assert set(assert_whole(url, "toy", 20)) == {DRIVER_DIED}


def test_the_lease_of_another_machine_holds_until_it_expires(url, make, tmp_path):
    make().take()
    change_owner(url, tmp_path, where="elsewhere", host="other", until=time.time() + 1000)
    with pytest.raises(StudyError, match=r"process \d+ on other.*its lease ends in (999|1000) s"):
        make().take()
    change_owner(url, tmp_path, until=time.time() - 1)
    second = make()
    second.take()
    assert owner(url)["host"] != "other"


@pytest.mark.parametrize("reaped", [True, False])
def test_a_process_of_this_machine_that_is_no_more_is_replaced_at_once(url, make, tmp_path, reaped):
    """Also while it is a zombie, as it stays in a container whose first process does not look after its children."""
    make().take()
    dead = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    change_owner(url, tmp_path, id="other", pid=dead.pid, born=leases._born(dead.pid), until=time.time() + 1000)
    with pytest.raises(StudyError, match=f"process {dead.pid}"):
        make().take()
    dead.kill()
    if reaped:
        dead.wait()
    else:
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    make().take()
    assert owner(url)["pid"] == os.getpid()
    dead.communicate()


def test_a_process_with_the_number_of_a_dead_one_is_not_taken_for_it(url, make, tmp_path):
    make().take()
    change_owner(url, tmp_path, id="other", born="12", until=time.time() + 1000)
    make().take()


def test_the_keeper_renews_the_lease_while_the_driver_is_busy(url, make):
    lease = make(seconds=0.2)
    lease.take()
    first = owner(url)["until"]
    eventually(lambda: owner(url)["until"] > first + 0.4)
    lease.check()


def test_an_owner_that_was_replaced_ends_before_it_writes_again(url, make, tmp_path):
    """The driver itself stands still, as it does in a machine's sleep, and its lease expires meanwhile."""
    others = make()

    def sleep():
        change_owner(url, tmp_path, where="elsewhere", until=time.time() - 1)
        others.take()
        asleep.setattr(leases.time, "time", lambda: now() + 31)

    now = time.time
    taken_over = r"another driver \(process .* has taken over the study 'toy', because"
    with pytest.MonkeyPatch.context() as asleep, pytest.raises(StudyError, match=taken_over):
        toy(tmp_path, url, events={7: sleep})
    before = [(trial.number, trial.state) for trial in loaded(url, "toy")[0]]
    assert len(before) == 7
    assert owner(url)["id"] == others._id
    others.release()
    toy(tmp_path, url)
    assert_whole(url, "toy", 20)


def test_the_keeper_too_finds_out_that_the_study_was_taken_over(url, make, tmp_path):
    first, second = make(seconds=0.2), make()
    first.take()
    eventually(lambda: taken(url, second, tmp_path))
    eventually(lambda: first._lost)
    with pytest.raises(StudyError, match="has taken over"):
        first.check()
    first.release()
    assert owner(url)["id"] == second._id


def taken(url, lease, tmp_path):
    """Takes the lease over; the keeper of the first may be quicker."""
    change_owner(url, tmp_path, where="elsewhere", until=0)
    try:
        lease.take()
    except StudyError:
        return False
    return True


DRIVER = """
import sys
from pathlib import Path
from running import SETTINGS, toy
from workflows.errors import StudyError
from workflows.study import lease
lease.Lease.__init__.__defaults__ = (0.5,)

def pause():
    print("here", flush=True)
    sys.stdin.readline()

try:
    toy(Path("."), sys.argv[1], events={7: pause})
except StudyError as error:
    print(error)
"""


def test_a_driver_that_was_stopped_and_replaced_finds_out(url, tmp_path):
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    first = subprocess.Popen(
        [sys.executable, "-c", DRIVER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert first.stdout.readline() == "here\n"
    with pytest.raises(StudyError, match=f"process {first.pid}"):
        toy(tmp_path, url)
    os.kill(first.pid, signal.SIGSTOP)
    eventually(lambda: owner(url)["until"] < time.time())
    toy(tmp_path, url)
    after = [(trial.number, trial.state, trial.datetime_complete) for trial in loaded(url, "toy")[0]]
    os.kill(first.pid, signal.SIGCONT)
    said, _ = first.communicate("go on\n", timeout=60)
    assert "has taken over the study 'toy'" in said
    assert "did not answer for longer than 0 s" in said
    assert [(trial.number, trial.state, trial.datetime_complete) for trial in loaded(url, "toy")[0]] == after
    assert DRIVER_DIED in assert_whole(url, "toy", 20)


def test_a_journal_has_one_driver_and_needs_no_lease(tmp_path):
    with held("toy", tmp_path, None, SETTINGS, SPACE, Watcher()):
        with pytest.raises(StudyError, match=r"another driver is running the study in .*toy\.journal"):
            toy(tmp_path)
        toy(tmp_path, study="another")
    toy(tmp_path)
    assert KEY not in loaded(tmp_path / "studies" / "toy.journal", "toy")[1]
