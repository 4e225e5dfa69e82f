"""A study on three hosts as a platform team runs it: Ray asks for a token, PostgreSQL for a password, MLflow serves
all; a link is cut for a while and comes back."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from mlflow_servers import answers
from networks import RAY_PORT, SECONDS_TO_START, a_network
from optuna.storages import RDBStorage
from postgres import ENCODED, PASSWORD, USER, _somebody_else, program
from ray_clusters import until
from running import assert_whole
from tracked import assert_level, assert_published, database_of, looked_up, quiet, with_database

from workflows.tracking.address import QUIET

pytestmark = [quiet, pytest.mark.xdist_group("cluster-network"), pytest.mark.compiled_only]

TRIALS, ROWS = 100, 20_000
SECONDS_OF_THE_CUT = 20.0
SECONDS_TO_REFUSE = 15.0
SECONDS_TO_END = 300.0
SENDER = "workflows.tracking.sender"
DATABASE_PORT, MLFLOW_PORT = 5432, 5000
SLOW = 2.0
"""Seconds that the database takes to enter a trial while hosts are not there: a quick machine shall not end the study
meanwhile."""
WORKERS = ("ray::Worker", "ray::Worker.run")
"""Titles of those that wait for trials and run them; while they get ready it is another one."""
PACE = f"""
CREATE TABLE pace (seconds float);
INSERT INTO pace VALUES ({SLOW});
CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep((SELECT seconds FROM pace)); RETURN NEW; END';
CREATE TRIGGER pace BEFORE INSERT ON trials FOR EACH ROW EXECUTE FUNCTION dawdle();
"""


class Database:
    """PostgreSQL on a host, for all hosts that know the password."""

    def __init__(self, network, folder):
        self._network, self._folder = network, folder
        self._data, secret, owner = folder / "data", folder / "password", _somebody_else()
        secret.write_text(PASSWORD)
        os.chown(folder, owner["user"], owner["group"])
        words = ["-D", self._data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        subprocess.run([program("initdb"), *words], check=True, stdout=subprocess.DEVNULL, cwd="/", **owner)
        with open(self._data / "pg_hba.conf", "a") as allowed:
            allowed.write("host all all 10.77.0.0/24 scram-sha-256\n")

    @contextmanager
    def running(self, address):
        self._address = address
        owner = _somebody_else()
        somebody = ["setpriv", f"--reuid={owner['user']}", f"--regid={owner['group']}", "--clear-groups"]
        settings = [f"listen_addresses={self._address}", "unix_socket_directories=", "fsync=off"]
        words = [program("postgres"), "-D", self._data, *(word for each in settings for word in ("-c", each))]
        with open(self._folder / "log", "w") as log:
            server = self._network.start(self._address, *somebody, *words, stderr=log, cwd="/")
        try:
            until(lambda: self._network.answers(self._address, DATABASE_PORT), SECONDS_TO_START, "PostgreSQL")
            yield self
        finally:
            server.send_signal(signal.SIGQUIT)  # at once, and yet nothing of it is left
            server.wait(60)

    def url(self, password=f":{ENCODED}"):
        return f"postgresql+psycopg://{USER}{password}@{self._address}:{DATABASE_PORT}/postgres"

    def password_file(self):
        """As libpq reads it."""
        file = self._folder / "pgpass"
        file.touch(mode=0o600)
        file.write_text(f"{self._address}:{DATABASE_PORT}:*:{USER}:{PASSWORD}\n")
        return str(file)

    def make_tables(self):
        """As the first study would, and something that slows it down when it is told to."""
        url = self.url().replace("{", "{{").replace("}", "}}")  # Optuna takes braces for a template
        self._network.on(self._address, lambda: RDBStorage(url).engine.dispose())
        self.ask(PACE)

    def slow_down(self, seconds):
        self.ask(f"UPDATE pace SET seconds = {seconds}")

    def results(self):
        """(state, host) of every trial that has ended, in the order of their beginning."""
        found = self.ask("SELECT value_json FROM trial_user_attributes WHERE key = 'result' ORDER BY trial_id")
        results = [json.loads(content) for (content,) in found]
        return [(result["state"], result["node"].partition(":")[0]) for result in results]

    def ask(self, question):
        def answer():
            with psycopg.connect(self.url().replace("+psycopg", ""), autocommit=True) as connection:
                found = connection.execute(question)
                return found.fetchall() if found.description else []

        return self._network.on(self._address, answer)


def start_mlflow(network, address, folder):
    where = ["--host", address, "--port", MLFLOW_PORT, "--allowed-hosts", f"{address}:*", "--workers", 1]
    with open(folder / "log", "w") as log:
        network.start(
            *(address, sys.executable, "-m", "mlflow", "server", *where, "--artifacts-destination", folder / "files"),
            environment=QUIET
            | {"MLFLOW_BACKEND_STORE_URI": database_of(folder), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    return f"http://{address}:{MLFLOW_PORT}"


@pytest.fixture
def token(tmp_path):
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(os.urandom(32).hex())
    return str(file)


@pytest.fixture
def network(token):
    program("initdb")
    with a_network(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=token) as made:
        yield made


@pytest.fixture
def database(network):
    # Not pytest's folder: it is closed to other users, and PostgreSQL refuses to run as root.
    with tempfile.TemporaryDirectory(prefix="mmbsgd-postgres-") as folder:
        yield Database(network, Path(folder))


@pytest.mark.long
def test_a_protected_cluster_whose_link_is_cut_for_a_while(network, database, tmp_path):
    head, other, lost = hosts = [network.host() for _ in range(3)]
    files = with_database(tmp_path / "mlflow")
    with database.running(head):
        mlflow = start_mlflow(network, head, files)
        network.join_all(*hosts)
        database.make_tables()
        until(lambda: network.on(other, lambda: answers(mlflow)), SECONDS_TO_START, "MLflow")
        command = network.mmbsgd(
            *(other, "tune", "demo", "--rows", ROWS, "--trials", TRIALS, "--sampler", "random", "--no-early-stop"),
            *("--confirm", 1, "--ray-address", f"{head}:{RAY_PORT}", "--storage", database.url(password="")),
            *("--tracking-uri", mlflow, "--json"),
            environment={"PGPASSFILE": database.password_file()},
            cwd=tmp_path,
        )

        def wait_for(condition, what):
            until(lambda: condition() or command.poll() is not None, SECONDS_TO_START, what)
            assert command.poll() is None, command.communicate()

        def is_ready(host):
            return any(title in WORKERS for title in network.running(host))

        wait_for(lambda: all(map(is_ready, hosts)), "workers on all hosts")
        database.slow_down(0)
        wait_for(lambda: {*hosts} <= {host for _, host in database.results()}, "trials on all hosts")
        network.cut(lost)
        cut, before = time.monotonic(), len(database.results())
        database.slow_down(SLOW)
        assert_refused(network, head, tmp_path, {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN_PATH": ""})
        assert_refused(network, head, tmp_path, {"RAY_AUTH_TOKEN_PATH": "", "RAY_AUTH_TOKEN": "wrong" * 10})
        wait_for(lambda: len(database.results()) > before + 3, "trials on the other hosts")
        time.sleep(max(cut + SECONDS_OF_THE_CUT - time.monotonic(), 0.0))
        network.restore(lost)
        wait_for(lambda: network.ended(lost), "the end of the node that was declared dead")
        network.join(lost, head)
        wait_for(lambda: is_ready(lost), "a worker on the host that is back")
        back = len(database.results())
        database.slow_down(0)
        said, complained = command.communicate(timeout=SECONDS_TO_END)
        assert command.returncode == 0, complained
        assert lost in {host for _, host in database.results()[back:]}
        # What MLflow still lacks is sent after the command's end.
        until(lambda: not any(SENDER in line for line in network.running(other)), SECONDS_TO_END, "all of it in MLflow")
        assert_complete(network, database, head, files, json.loads(said))


def assert_refused(network, address, folder, environment):
    """A client without the token, or with another one, is told so."""
    home = {"HOME": str(folder)}  # Ray looks for a token there
    words = ("tune", "demo", "--rows", 200, "--no-tracking", "--study", "stranger", "--home", folder / "stranger")
    began = time.monotonic()
    command = network.mmbsgd(address, *words, "--ray-address", f"{address}:{RAY_PORT}", environment=home | environment)
    said, complained = command.communicate(timeout=SECONDS_TO_REFUSE)
    print(f"{time.monotonic() - began:.1f} s to be refused: {complained}")
    assert command.returncode == 2, said + complained
    assert "token" in complained
    assert "Traceback" not in complained


def assert_complete(network, database, address, files, outcome):
    """Every parameter set was completed once, and MLflow has all of it."""
    assert outcome["trials"]["complete"] == TRIALS
    reasons = network.on(address, lambda: assert_whole(database.url(), "demo", TRIALS))
    print(f"{len(reasons)} trials were tried again: {reasons}")
    assert all("its node was lost" in reason or "its worker died" in reason for reason in reasons)
    seen = network.on(address, lambda: looked_up(files, "demo", database.url()))
    assert_level(database_of(files), seen)
    assert seen.front
    assert {member.number for member in seen.front} == {each["trial"] for each in outcome["front"]}
    (report,) = files.rglob("report.html")
    assert_published({str(path.relative_to(report.parent)) for path in report.parent.rglob("*")})
