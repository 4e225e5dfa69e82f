"""A study in PostgreSQL: the server may restart, crash and stay away, and nothing is lost or counted twice."""

import os
import signal
import subprocess
import sys
import threading

import psycopg
import pytest
from postgres import PASSWORD, USER, running_server
from running import PATIENCE, SETTINGS, SPACE, Command, assert_whole, eventually, loaded, run, toy

from workflows.errors import StudyError
from workflows.export.once import KEY as KEY_OF_LOOKS
from workflows.study.lease import KEY, Lease
from workflows.study.ledger import DRIVER_DIED, Ledger
from workflows.study.storages import open_storage
from workflows.study.tuning import Watcher, held

pytestmark = [pytest.mark.compiled_only, pytest.mark.xdist_group("postgres")]
DEMO = ("tune", "demo", "--no-tracking", "--rows", "2000", "--workers", "0", "--sampler", "random", "--confirm", "1")


@pytest.fixture(scope="session")
def server():
    with running_server() as server:
        yield server


class Noted(Watcher):
    def __init__(self):
        self.away = []

    def storage_away(self, reason):
        self.away.append(reason)


def test_a_study_goes_on_over_restarts_of_the_server(server, tmp_path):
    url, watcher = server.new_url(), Noted()
    found = toy(tmp_path, url, trials=30, events={5: server.restart, 6: server.restart, 21: server.restart})
    assert found.progress.complete == 30
    assert found.progress.failed == found.progress.retries == 0
    assert assert_whole(url, "toy", 30) == []
    again = toy(tmp_path, url, trials=30, watcher=watcher)
    assert again.progress.complete == 30
    assert again.front == found.front
    assert len(loaded(url, "toy")[0]) == 30
    assert watcher.away == []


def test_a_server_that_comes_back_later_is_waited_for(server, tmp_path):
    url, watcher = server.new_url(), Noted()

    def back():
        eventually(lambda: watcher.away)
        server.start()

    def away():
        server.stop()
        threading.Thread(target=back).start()

    assert toy(tmp_path, url, trials=20, events={7: away}, watcher=watcher).progress.complete == 20
    assert_whole(url, "toy", 20)
    assert PASSWORD not in "".join(watcher.away)


def test_connections_that_are_cut_are_made_again(server, tmp_path):
    url = server.new_url()
    database = url.rpartition("/")[2]

    def cut():
        with server.connection("postgres") as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,))

    toy(tmp_path, url, trials=20, events=dict.fromkeys(range(1, 20), cut))
    assert assert_whole(url, "toy", 20) == []


def test_a_server_that_stays_away_ends_the_study_with_a_message_and_it_goes_on_later(server, tmp_path, monkeypatch):
    url = server.new_url()
    monkeypatch.setitem(Ledger.__init__.__kwdefaults__, "patience", 0.5)
    try:
        with pytest.raises(
            StudyError, match=r"storage has not answered for 0 s: .*run the same command again"
        ) as ended:
            toy(tmp_path, url, trials=20, events={7: server.stop})
    finally:
        server.start()
    assert PASSWORD not in str(ended.value)
    toy(tmp_path, url, trials=20)
    assert set(assert_whole(url, "toy", 20)) == {DRIVER_DIED}


def test_an_interruption_while_the_server_is_away_ends_the_study(server, tmp_path):
    class Impatient(Noted):
        def storage_away(self, reason):
            self.interrupted = True

    url = server.new_url()
    try:
        with pytest.raises(StudyError, match="interrupted while the study's storage did not answer"):
            toy(tmp_path, url, trials=20, events={7: server.stop}, watcher=Impatient())
    finally:
        server.start()
    toy(tmp_path, url, trials=20)
    assert_whole(url, "toy", 20)


def test_the_command_survives_a_restart_of_the_server(server, tmp_path):
    url = server.new_url()
    options = (*DEMO, "--trials", "60", "--storage", url)
    running = Command(*options, cwd=tmp_path)
    database = url.rpartition("/")[2]
    with server.connection(database) as connection:
        running.until(lambda: count_of(connection) >= 10)
        front = run("front", "demo", "--storage", url, "--json", cwd=tmp_path)
    server.restart()
    code, output, errors = running.end()
    assert code == 0, errors
    assert "60 trials complete" in output
    assert_whole(url, "demo", 60)
    assert front[0] == 0, front
    assert PASSWORD not in output + errors + front[1] + front[2]
    assert "SECRET" not in output + errors
    assert f"front demo --storage 'postgresql+psycopg://{USER}:***@" in output


def count_of(connection):
    try:
        return connection.execute("SELECT count(*) FROM trials").fetchone()[0]
    except psycopg.errors.UndefinedTable:
        return 0


def test_a_killed_command_is_replaced_at_once_and_a_running_one_is_not(server, tmp_path):
    url = server.new_url()
    options = (*DEMO, "--trials", "40", "--storage", url)
    first = Command(*options, cwd=tmp_path)
    with server.connection(url.rpartition("/")[2]) as connection:
        first.until(lambda: count_of(connection) >= 5)
    os.kill(first.process.pid, signal.SIGSTOP)
    with pytest.raises(StudyError, match=f"another driver runs the study 'demo' .process {first.process.pid} on "):
        toy(tmp_path, url, study="demo")
    first.process.kill()  # and not waited for: it stays a zombie
    code, _, errors = run(*options, cwd=tmp_path)
    first.end()
    assert code == 0, errors
    assert_whole(url, "demo", 40)


def test_a_model_of_a_study_in_postgresql_is_exported_and_its_test_rows_are_used_once(server, tmp_path):
    url = server.new_url()
    code, _, errors = run(*DEMO, "--trials", "6", "--storage", url, cwd=tmp_path)
    assert code == 0, errors
    words = ("export", "demo", "--storage", url, "--format", "native")
    code, output, errors = run(*words, "--pick", "fastest", "--out", "first", cwd=tmp_path)
    assert code == 0, errors
    assert PASSWORD not in output + (tmp_path / "first" / "model-card.md").read_text()
    assert KEY_OF_LOOKS in loaded(url, "demo")[1]
    code, _, errors = run(
        *words, "--pick", "most-accurate", "--keep", "best-validation", "--out", "second", cwd=tmp_path
    )
    assert code == 2
    assert "--again" in errors


def test_of_drivers_that_start_at_the_same_time_one_gets_the_study(server, tmp_path):
    """In processes of their own, on a database that has no tables yet."""
    url = server.new_url()
    script = (
        "import sys; from pathlib import Path; from running import SETTINGS, SPACE\n"
        "from workflows.study.tuning import Watcher, held; from workflows.errors import StudyError\n"
        "sys.stdin.readline()\n"
        "try:\n"
        "    with held('toy', Path('.'), sys.argv[1], SETTINGS, SPACE, Watcher()):\n"
        "        print('mine', flush=True); sys.stdin.readline()\n"
        "except StudyError as error:\n"
        "    print(error, flush=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", script, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tmp_path,
        )
        for _ in range(4)
    ]
    for driver in drivers:
        driver.stdin.write("go\n")
        driver.stdin.flush()
    said = [driver.stdout.readline() for driver in drivers]
    for driver in drivers:
        driver.communicate("end\n", timeout=PATIENCE)
    assert sum(line == "mine\n" for line in said) == 1, said
    assert sum("another driver runs the study 'toy'" in line for line in said) == 3, said


def test_a_lease_in_postgresql_is_taken_kept_and_released(server, tmp_path):
    url = server.new_url()
    with held("toy", tmp_path, url, SETTINGS, SPACE, Watcher()):
        with pytest.raises(StudyError, match="another driver runs the study 'toy'"):
            toy(tmp_path, url)
        server.restart()
        with pytest.raises(StudyError, match="another driver runs the study 'toy'"):
            toy(tmp_path, url)
    assert loaded(url, "toy")[1][KEY] is None
    assert toy(tmp_path, url).progress.complete == 20


def test_a_renewal_survives_a_server_that_was_away(server, tmp_path):
    url = server.new_url()
    with held("toy", tmp_path, url, SETTINGS, SPACE, Watcher()):
        pass
    opened = open_storage(url, tmp_path, "toy")
    lease = Lease(opened.storage.engine, opened.find("toy"), "toy", seconds=0.4)
    lease.take()
    until = loaded(url, "toy")[1][KEY]["until"]
    server.restart()
    eventually(lambda: loaded(url, "toy")[1][KEY]["until"] > until + 0.3)
    lease.check()
    lease.release()
    opened.close()
    assert loaded(url, "toy")[1][KEY] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda url: url.replace("SECRET-", "SECRET-WRONG"), "password authentication failed"),
        (lambda url: url.rpartition("/")[0] + "/nowhere", 'database "nowhere" does not exist'),
        (lambda url: url.replace("127.0.0.1", "no-such-host.invalid"), "no-such-host.invalid"),
        (lambda url: url.replace("127.0.0.1", "SECRET@127.0.0.1"), "write an @ in the password as %40"),
        (lambda url: url.replace(f"{USER}:", f"{USER}:1:"), "password authentication failed"),
        (lambda url: url + "?password=SECRET-WRONG", "password authentication failed"),
    ],
)
def test_a_database_that_cannot_be_opened_is_one_line_without_the_password(server, tmp_path, change, message):
    url = change(server.new_url())
    for write in (True, False):
        with pytest.raises(StudyError) as failed:
            open_storage(url, tmp_path, "toy", write=write)
        assert message in str(failed.value)
        assert "SECRET" not in str(failed.value)
        assert "\n" not in str(failed.value)


def test_a_server_that_is_not_there_is_one_line(server, tmp_path):
    url = server.new_url()
    server.stop()
    try:
        code, output, errors = run(*DEMO, "--storage", url, cwd=tmp_path)
    finally:
        server.start()
    assert code == 2
    assert "cannot open --storage postgresql+psycopg://tester:***@" in errors
    assert "Connection refused" in errors
    assert "Traceback" not in errors + output
    assert "SECRET" not in errors + output


def test_an_unknown_study_names_the_known_ones(server, tmp_path):
    url = server.new_url()
    for study in ("second", "first"):
        toy(tmp_path, url, trials=1, study=study)
    opened = open_storage(url, tmp_path, "third", write=False)
    with pytest.raises(StudyError, match=r"no study 'third' in postgresql.*; there are: first, second"):
        opened.find("third")
    opened.close()
