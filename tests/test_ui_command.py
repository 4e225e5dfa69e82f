"""mmbsgd ui and mmbsgd sync: what they say, what they leave behind, and what they answer to mistakes."""

import os
import signal
import socket
import sys
import urllib.error
from dataclasses import replace
from urllib.request import ProxyHandler, build_opener

import pytest
from mlflow_servers import HOST, Proxy, free_port, links
from running import SETTINGS, SPACE, Command, Disturbed, eventually, toy
from tracked import (
    artifacts,
    assert_level,
    assert_published,
    database_of,
    looked_up,
    made_up,
    opened,
    quiet,
    with_database,
)

from workflows.cli import main
from workflows.commands.sync import _status, bring
from workflows.errors import TrackingError
from workflows.study.driver import Limits
from workflows.study.snapshot import TRACKING
from workflows.study.tuning import Plan, Watcher, held, tune
from workflows.tracking import server as serving
from workflows.tracking.address import address
from workflows.tracking.server import Server
from workflows.tracking.views import report_page, study_page, trials_page

pytestmark = [quiet, pytest.mark.compiled_only]
direct = build_opener(ProxyHandler({}))


@pytest.fixture
def home(tmp_path):
    return with_database(tmp_path / "home")


@pytest.fixture
def command(monkeypatch, capsys, home):
    """Runs the command here: (exit code, output, errors)."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def here(*arguments):
        monkeypatch.setattr(sys, "argv", ["mmbsgd", *map(str, arguments), "--home", str(home)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert "Traceback" not in said.err + said.out
        return ended.value.code, said.out, said.err

    return here


def listening(port):
    """Addresses on which a port of this machine is open."""
    found = set()
    for family in ("tcp", "tcp6"):
        with open(f"/proc/net/{family}") as table:
            for line in list(table)[1:]:
                local, _, state = line.split()[1:4]
                where, _, number = local.rpartition(":")
                if state == "0A" and int(number, 16) == port:
                    found.add(where)
    return found


def test_the_dashboard_shows_the_latest_study_on_this_machine_only_until_ctrl_c(home, command, monkeypatch):
    toy(home, trials=3, study="older")
    toy(home, trials=5, study="latest")
    os.utime(home / "studies" / "older.journal", (1, 1))
    running = Command("ui", "--no-browser", "--port", "0", "--home", home, cwd=home)
    try:
        said = links(running)
        url = said["The study"].partition("/#/")[0]
        seen = looked_up(home, "latest")
        above = assert_level(database_of(home), seen)
        assert_published(artifacts(above))
        experiment = said["The study"].split("/")[5]
        assert said == {
            "The study": study_page(url, experiment, above.id),
            "All trials": trials_page(url, experiment),
            "Its report": report_page(url, experiment, above.id),
        }
        with direct.open(f"{url}/api/2.0/mlflow/runs/get?run_id={above.id}", timeout=60) as answer:
            assert above.id in answer.read().decode()
        port = int(url.rpartition(":")[2])
        assert listening(port) == {"0100007F"}
        with pytest.raises(urllib.error.URLError):
            direct.open(f"http://127.0.0.2:{port}/health", timeout=10)
        code, _, errors = command("ui", "latest", "--port", port)
        assert code == 2
        assert f"port {port} is taken" in errors
        opened_pages = []
        monkeypatch.setattr("webbrowser.open", opened_pages.append)
        code, output, errors = command("ui", "latest", "--tracking-uri", url)
        assert code == 0, errors
        assert opened_pages == [said["Its report"]]
        assert said["Its report"] in output
    finally:
        os.kill(running.process.pid, signal.SIGINT)
    code, output, errors = running.end()
    assert code == 0, (output, errors)
    assert "Traceback" not in output + errors
    eventually(lambda: not running.family())
    assert_level(database_of(home), seen)


def test_nothing_is_left_if_it_is_ended_while_the_server_starts(home):
    toy(home, trials=2)
    running = Command("ui", "toy", "--no-browser", "--port", "0", "--home", home, cwd=home)
    running.until(running.family)
    running.process.terminate()
    code, output, errors = running.end()
    assert code == 128 + signal.SIGTERM, (output, errors)
    assert "Traceback" not in output + errors
    eventually(lambda: not running.family())


def test_a_server_that_cannot_start_is_a_message_with_its_last_words(tmp_path, monkeypatch):
    port = free_port()
    with socket.create_server((HOST, port)), Server(address(None, tmp_path), port, tmp_path / "new" / "log") as server:
        monkeypatch.setattr(serving, "SECONDS_TO_START", 0.0)
        with pytest.raises(TrackingError, match=r"MLflow's server did not start: .*; all of it is in .*log"):
            server.wait()


def test_the_usual_port_is_taken_if_it_is_free(monkeypatch):
    usual = free_port()
    assert serving.free_port(None, usual) == usual
    assert serving.free_port(0, usual) != 0
    with socket.create_server((HOST, usual)):
        assert serving.free_port(None, usual) != usual
        with pytest.raises(TrackingError, match=f"port {usual} is taken: choose another --port, or 0"):
            serving.free_port(usual, 5000)


def test_a_study_is_synced_to_the_home_and_again(home, command):
    toy(home, trials=6)
    for _ in range(2):
        code, output, errors = command("sync", "toy")
        assert code == 0, errors
        above = assert_level(database_of(home), looked_up(home))
        assert f"MLflow (embedded) has all 6 trials of toy: run {above.id}" in output
        assert f"mmbsgd ui toy --home {home}" in output


@pytest.mark.parametrize("name", ["sync", "ui"])
@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("./mlruns", "--tracking-uri is not a URL such as http://HOST:PORT"),
        ("file:///tmp/mlruns", "--tracking-uri file:… is not supported"),
        ("postgresql+nothing://me:SECRET@host/x", "postgresql.nothing"),
        ("sqlite:////proc/no/such/folder/mlflow.db", "does not answer"),
    ],
)
def test_an_address_that_is_none_is_a_message(home, command, name, uri, message):
    toy(home, trials=1)
    code, output, errors = command(name, "toy", "--tracking-uri", uri)
    assert code == 2
    assert message in errors
    assert "SECRET" not in output + errors


@pytest.mark.parametrize("name", ["sync", "ui"])
def test_studies_that_are_not_there_are_messages(home, command, name):
    code, _, errors = command(name, "nowhere")
    assert code == 2
    assert "no study 'nowhere'" in errors
    toy(home, trials=1)
    code, _, errors = command(name, "nowhere")
    assert code == 2
    assert "there are: toy" in errors


def test_without_any_study_there_is_nothing_to_show(command):
    code, _, errors = command("ui")
    assert code == 2
    assert "make one with 'mmbsgd tune'" in errors


def test_a_study_without_trials_is_a_message(home, command):
    with held("toy", home, None, SETTINGS, SPACE, Watcher()):
        pass
    code, _, errors = command("sync", "toy")
    assert code == 2
    assert "the study 'toy' has no trial yet" in errors


def test_a_server_that_is_not_there_is_a_message(home, command):
    toy(home, trials=1)
    for name in ("sync", "ui"):
        code, _, errors = command(name, "toy", "--tracking-uri", f"http://{HOST}:{free_port()}")
        assert code == 2
        assert "does not answer: connection refused; run the same command again" in errors
    with Proxy(None, lambda before, kind: "error") as proxy:
        code, _, errors = command("sync", "toy", "--tracking-uri", proxy.url)
    assert code == 2
    assert f"MLflow ({proxy.url}) does not answer" in errors


def test_a_deleted_experiment_is_a_message(home, command):
    toy(home, trials=1)
    assert command("sync", "toy")[0] == 0
    store = opened(home)
    store._client.delete_experiment(store.experiment("mmbsgd/toy"))
    store.close()
    code, _, errors = command("sync", "toy")
    assert code == 2
    assert "the experiment 'mmbsgd/toy' was deleted in MLflow at embedded: restore it there" in errors


def test_a_file_that_is_no_database_is_a_message_at_once(home, command):
    toy(home, trials=1)
    (home / "mlflow.db").write_text("not a database" * 1000)
    code, _, errors = command("sync", "toy")
    assert code == 2
    assert "not a database" in errors


@pytest.mark.parametrize(
    ("state", "age", "status"),
    [
        ("finished", 0, "FINISHED"),
        ("interrupted", 0, "KILLED"),
        ("running", 0, "RUNNING"),
        ("running", 3600, "KILLED"),
        ("", 0, "FINISHED"),
    ],
)
def test_a_study_is_written_down_as_its_driver_left_it(monkeypatch, state, age, status):
    seen = replace(made_up(3), state=state)
    monkeypatch.setattr("workflows.commands.sync.time.time", lambda: seen.trials[-1].ended + age)
    assert _status(seen) == status


def test_a_study_remembers_where_it_was_tracked(tmp_path):
    for environment in ({TRACKING: "http://server:5000", "git.commit": "a"}, {"git.commit": "b"}):
        plan = Plan(Limits(trials=2), sampler="random", confirm=0, environment=environment)
        tune("toy", SETTINGS, SPACE, lambda: Disturbed({}), plan=plan, home=tmp_path)
    assert looked_up(tmp_path).environment == {TRACKING: "http://server:5000", "git.commit": "b"}


def test_a_home_that_was_moved_takes_its_files_along(home):
    toy(home, trials=4)
    for place in (home, home.with_name("moved")):
        if place != home:
            home.rename(place)
        bring(looked_up(place), address(None, place), place, None)
        above = assert_level(database_of(place), looked_up(place))
        assert above.artifacts.startswith(str(place / "artifacts"))
        assert_published(artifacts(above))
    assert not home.exists()
