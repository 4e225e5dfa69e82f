"""A study is written to a server that is down, dies, is slow or broken: it is not held up, and nothing is lost or
doubled afterwards."""

import os
import threading
import time

import pytest
from mlflow_servers import HOST, Proxy, free_port, running_mlflow, silent_port
from postgres import running_server
from running import PATIENCE, eventually, toy
from tracked import Opened, assert_level, assert_published, looked_up, quiet

from workflows.commands.sync import bring
from workflows.errors import TrackingError
from workflows.tracking import background
from workflows.tracking.address import address
from workflows.tracking.background import Background
from workflows.tracking.sender import converse

pytestmark = [quiet, pytest.mark.compiled_only]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_mlflow(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """The command waits as long as a test says, on slow machines too."""
    monkeypatch.setattr(background, "LOOK", PATIENCE)


class InThread:
    """A sender as the driver sees a process of it. It runs here, where everything that it needs is loaded already."""

    def __init__(self):
        source, driver = os.pipe()
        ear, mouth = os.pipe()
        self.stdin, self.stdout = os.fdopen(driver, "wb"), os.fdopen(ear, "rb")
        self._thread = threading.Thread(target=self._serve, args=(source, mouth))
        self._thread.start()

    def wait(self, seconds=None):
        self._thread.join(seconds)
        assert not self._thread.is_alive()

    def kill(self):
        self.wait(PATIENCE)

    def _serve(self, source, mouth):
        try:
            converse(source, mouth)
        finally:
            os.close(source)
            os.close(mouth)


@pytest.fixture
def in_thread(monkeypatch):
    monkeypatch.setattr(background, "start_sender", InThread)


class Tracked:
    """A study without training, in this process, and the process that writes it to MLflow."""

    def __init__(self, home, uri, storage=None):
        self.home, self.storage, self.where, self.warnings = home, storage, address(uri, home), []

    def run(self, *, patience=PATIENCE, keep=False, **options):
        """keep: what the sender still has to do after the command's end is waited for, else it is ended."""
        sender = Background("toy", self.home, self.storage, self.where, self._warn)
        with sender:
            sender.start()
            self.outcome = toy(self.home, self.storage, **options)
            trials = self.outcome.progress.done
            self.tracked = sender.finish(trials, interrupted=False, report=lambda *_: None, patience=patience)
        if not keep:
            sender._process.kill()
        sender._process.wait(PATIENCE)
        sender._listener.join()
        self.seen = looked_up(self.home, storage=self.storage)
        return self

    def sync(self):
        """What `mmbsgd sync` does."""
        return bring(self.seen, self.where, self.home, self.storage)

    def _warn(self, where, reason):
        self.warnings.append(f"{where}: {reason}")


def files_of(uri, run):
    from mlflow import MlflowClient

    client, found, folders = MlflowClient(uri), set(), [None]
    while folders:
        for one in client.list_artifacts(run, folders.pop()):
            folders += [one.path] if one.is_dir else []
            found |= set() if one.is_dir else {one.path}
    return found


def test_a_study_is_followed_while_it_runs(server, tmp_path):
    with Proxy(server.url) as proxy:
        # Trials wait until MLflow has those before them: it is written while the study runs.
        written = {n: lambda n=n: eventually(lambda: proxy.count("runs/create") >= n // 2) for n in (8, 14)}
        study = Tracked(tmp_path, proxy.url).run(events=written, trials=20, confirm=2)
        assert study.warnings == []
        above = assert_level(server.database, study.seen)
        assert study.tracked.reason == ""
        assert study.tracked.page == f"{proxy.url}/#/experiments/{_experiment(study)}/runs/{above.id}" + (
            "?workflowType=machine_learning"
        )
        assert_published(files_of(proxy.url, above.id))
        assert study.sync() == (_experiment(study), above.id)
        assert proxy.count("runs/create") == 21
    assert_level(server.database, study.seen)


def _experiment(study):
    from mlflow import MlflowClient

    return MlflowClient(study.where.uri).get_experiment_by_name("mmbsgd/toy").experiment_id


def test_a_server_that_is_down_all_the_time_is_one_warning(server, in_thread, tmp_path):
    proxy = Proxy(server.url)
    study = Tracked(tmp_path, proxy.url).run()
    assert study.outcome.progress.complete == 20
    assert study.warnings == [f"{proxy.url}: connection refused"]
    assert study.tracked.reason == "connection refused"
    assert study.tracked.done == 0
    with pytest.raises(
        TrackingError, match=rf"MLflow \({proxy.url}\) does not answer: connection refused; run the same"
    ):
        study.sync()
    with proxy:
        study.sync()
    assert_level(server.database, study.seen)


def test_a_server_that_goes_away_and_comes_back_has_everything(server, in_thread, tmp_path):
    with Proxy(server.url) as proxy:
        study = Tracked(tmp_path, proxy.url)

        def away():
            eventually(lambda: proxy.count("runs/create") >= 4)
            proxy.down()

        def back():
            eventually(lambda: study.warnings)
            proxy.up()

        study.run(events={8: away, 16: back}, trials=20)
        assert len(study.warnings) == 1
        assert study.tracked.reason == ""
    assert_level(server.database, study.seen)


@pytest.mark.parametrize("broken", ["error", "drop"])
def test_a_server_that_fails_now_and_then_has_everything_once_after_a_sync(server, in_thread, tmp_path, broken):
    """With 'drop', requests are carried out and the answers lost: what makes doubles."""
    with Proxy(server.url, lambda before, kind: broken if before in (0, 3) else "pass") as proxy:
        study = Tracked(tmp_path, proxy.url).run(trials=12)
        assert study.outcome.progress.complete == 12
        assert len(study.warnings) <= 1
        proxy.fate = lambda before, kind: "pass"
        study.sync()
    assert_level(server.database, study.seen)


def test_every_answer_that_makes_a_run_is_lost_and_none_is_doubled(server, in_thread, tmp_path):
    with Proxy(server.url, lambda before, kind: "drop" if kind == "runs/create" else "pass") as proxy:
        study = Tracked(tmp_path, proxy.url).run(trials=6)
        assert study.tracked.reason == "the connection broke off"
        proxy.fate = lambda before, kind: "pass"
        study.sync()
    assert_level(server.database, study.seen)


def test_a_slow_server_is_waited_for(server, in_thread, tmp_path):
    """Five seconds for the answer that nothing can go on without."""
    with Proxy(server.url, lambda before, kind: 5.0 if before == 0 and kind == "runs/create" else 0.05) as proxy:
        study = Tracked(tmp_path, proxy.url).run(trials=5)
        assert study.warnings == []
        assert study.tracked.reason == ""
    assert_level(server.database, study.seen)


def test_what_takes_too_long_is_written_when_the_command_has_ended(server, in_thread, tmp_path):
    with Proxy(server.url, lambda before, kind: 1.0 if before == 0 and kind == "runs/create" else "pass") as proxy:
        study = Tracked(tmp_path, proxy.url).run(trials=5, patience=0.2, keep=True)
        assert study.tracked.follows
    assert_level(server.database, study.seen)


def test_a_server_that_never_answers_does_not_hold_up_the_study(tmp_path):
    with silent_port() as port:
        study = Tracked(tmp_path, f"http://{HOST}:{port}").run(trials=200, patience=1.0)
    assert study.outcome.progress.complete == 200
    assert study.tracked.follows
    assert study.tracked.done == 0
    assert study.tracked.waited < PATIENCE


@pytest.mark.long
def test_studies_and_mlflow_in_postgresql(tmp_path):
    """Directly, then through a server on the same database that crashes in the middle and is started again."""
    with running_server() as postgres:
        database, storage = postgres.new_url(), postgres.new_url()
        where = address(database, tmp_path)
        study = Tracked(tmp_path, database, storage).run(trials=10)
        assert study.warnings == []
        assert study.tracked.reason == ""
        above = assert_level(database, study.seen)
        study.sync()
        assert assert_level(database, study.seen).id == above.id
        with running_mlflow(tmp_path, database) as server, Proxy(server.url) as proxy:

            def crash():
                eventually(lambda: proxy.count("runs/create") >= 3)
                server.kill()

            earlier = study.seen
            study = Tracked(tmp_path, proxy.url, storage).run(trials=30, events={10: crash}, patience=1.0)
            assert study.outcome.progress.complete == 30
            assert study.tracked.reason
            server.start()
            study.sync()
            assert assert_level(database, study.seen, earlier=[earlier]).id == above.id
        store = Opened(where)
        store.close()


def test_a_postgresql_that_is_away_is_a_message_at_once(tmp_path):
    toy(tmp_path, trials=2)
    seen = looked_up(tmp_path)
    uri = f"postgresql+psycopg://me:SECRET@{HOST}:{free_port()}/nowhere"
    began = time.monotonic()
    with pytest.raises(TrackingError, match=r"MLflow \(postgresql\+psycopg://me:\*\*\*@.*onnection refused") as failed:
        bring(seen, address(uri, tmp_path), tmp_path, None)
    assert "SECRET" not in str(failed.value)
    assert "\n" not in str(failed.value)
    assert time.monotonic() - began < 60
