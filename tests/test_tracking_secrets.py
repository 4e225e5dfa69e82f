"""A password in the address of MLflow or of the study is shown nowhere and kept nowhere."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy
from mlflow_servers import HOST, Proxy, free_port, links, running_mlflow
from postgres import ENCODED, USER, running_server
from running import Command, eventually, toy
from tracked import assert_level, looked_up, quiet

from workflows.cli import main

pytestmark = [quiet, pytest.mark.compiled_only]
SECRETS = ("SECRET", "c0nfidential")
LOGIN = "me:SECRET-c0nfidential"


@pytest.fixture(scope="module")
def postgres():
    with running_server() as postgres:
        yield postgres


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Runs the command here, without anything secret in what it says: (exit code, errors)."""
    monkeypatch.setenv("COLUMNS", "300")

    def here(*arguments):
        for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
            monkeypatch.setenv(name, "")  # each command is a process of its own elsewhere
        monkeypatch.setattr(sys, "argv", ["mmbsgd", *map(str, arguments), "--home", str(tmp_path / "home")])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert_nothing_secret(said.out + said.err)
        assert "Traceback" not in said.out + said.err
        return ended.value.code, said.err

    return here


def assert_nothing_secret(text):
    assert [secret for secret in SECRETS if secret in text] == []


def assert_no_secret_file(folder):
    for path in Path(folder).rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert [secret for secret in SECRETS if secret.encode() in content] == [], path


def assert_no_secret_row(url):
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            for table in sqlalchemy.inspect(engine).get_table_names():
                for row in connection.execute(sqlalchemy.text(f'SELECT * FROM "{table}"')):
                    assert_nothing_secret(repr(row))
    finally:
        engine.dispose()


class Onlooker:
    """Reads the command lines of a command's children as long as it runs, as anybody on the machine can."""

    def __init__(self, running):
        self.seen, self._running, self._over = set(), running, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        while not self._over.wait(0.05):
            for number in self._running.family():
                try:
                    self.seen.add(Path(f"/proc/{number}/cmdline").read_text().replace("\0", " "))
                except OSError:
                    continue


@pytest.mark.long
def test_a_study_and_its_runs_in_postgresql(postgres, board, command, tmp_path):
    """Tuned, completed and looked at; with wrong passwords too."""
    mlflow, storage, home = postgres.new_url(), postgres.new_url(), tmp_path / "home"
    options = ("--workers", 0, "--confirm", 1, "--trials", 4, "--storage", storage, "--tracking-uri", mlflow)
    running = Command("tune", "board", *options, "--home", home, cwd=board)
    with Onlooker(running) as onlooker:
        code, output, errors = running.end()
        assert code == 0, errors
        assert_nothing_secret(output + errors)
        assert f"{USER}:***@" in output
        eventually(lambda: not running.family())
    assert any("workflows.tracking.sender" in line for line in onlooker.seen)
    assert_nothing_secret("".join(onlooker.seen))
    seen = looked_up(home, "board", storage)
    assert_level(mlflow, seen)
    assert_nothing_secret(repr(seen.environment))

    assert command("sync", "board", "--storage", storage, "--tracking-uri", mlflow)[0] == 0
    code, errors = command("sync", "board", "--storage", storage)
    assert code == 2
    assert f"the study is tracked at postgresql+psycopg://{USER}:***@" in errors
    for wrong, message in (
        (mlflow.replace(ENCODED, "SECRET-wrong"), "password authentication failed"),
        (mlflow.rpartition("/")[0] + "/nowhere", 'database "nowhere" does not exist'),
        (mlflow.replace(HOST, "no-such-host.invalid"), "no-such-host.invalid"),
        (mlflow.replace(str(postgres.port), str(free_port())), "onnection refused"),
    ):
        code, errors = command("sync", "board", "--storage", storage, "--tracking-uri", wrong)
        assert code == 2
        assert message in errors

    running = Command(
        "ui",
        "board",
        "--no-browser",
        "--port",
        0,
        "--storage",
        storage,
        "--tracking-uri",
        mlflow,
        "--home",
        home,
        cwd=board,
    )
    with Onlooker(running) as onlooker:
        try:
            said = links(running)
        finally:
            os.kill(running.process.pid, signal.SIGINT)
        code, output, errors = running.end()
    assert code == 0, errors
    assert_nothing_secret(repr(said) + output + errors)
    assert any("mlflow server" in line for line in onlooker.seen)
    assert_nothing_secret("".join(onlooker.seen))
    assert_no_secret_file(home)
    assert_no_secret_row(mlflow)
    assert_no_secret_row(storage)


@pytest.mark.long
def test_a_dashboard_on_a_new_database(postgres, command, tmp_path):
    """Two processes meet there for the first time."""
    home, mlflow = tmp_path / "home", postgres.new_url()
    toy(home, trials=3)
    running = Command("ui", "toy", "--no-browser", "--port", 0, "--tracking-uri", mlflow, "--home", home, cwd=tmp_path)
    try:
        said = links(running)
    finally:
        os.kill(running.process.pid, signal.SIGINT)
    code, output, errors = running.end()
    assert code == 0, (output, errors)
    assert_nothing_secret(repr(said) + output + errors)
    assert_level(mlflow, looked_up(home))


def test_a_server_that_wants_a_name_and_a_password(command, tmp_path_factory, tmp_path):
    home = tmp_path / "home"
    toy(home, trials=5)
    with running_mlflow(tmp_path_factory.mktemp("server")) as server, Proxy(server.url, credentials=LOGIN) as proxy:
        address = proxy.url.replace("http://", f"http://{LOGIN}@")
        code, errors = command("sync", "toy", "--tracking-uri", address)
        assert code == 0, errors
        assert proxy.kinds
        assert proxy.refused == 0
        assert_level(server.database, looked_up(home))
        for wrong in (proxy.url, address.replace("SECRET", "SECRET-wrong")):
            code, errors = command("sync", "toy", "--tracking-uri", wrong)
            assert code == 2
            assert "it wants a name and a password: --tracking-uri http://USER:PASSWORD@HOST:PORT" in errors
        assert proxy.refused
        running = Command(
            "tune",
            "demo",
            "--rows",
            600,
            "--workers",
            0,
            "--trials",
            3,
            "--confirm",
            0,
            "--home",
            home,
            "--tracking-uri",
            address,
            cwd=tmp_path,
        )
        with Onlooker(running) as onlooker:
            code, output, errors = running.end()
            eventually(lambda: not running.family())
        assert code == 0, errors
        assert_nothing_secret(output + errors + "".join(onlooker.seen))
        assert_level(server.database, looked_up(home, "demo"))
        assert_no_secret_row(server.database)
    assert_no_secret_file(home)
