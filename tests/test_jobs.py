"""Studies on a cluster that is there, as the command meets it: refused for a reason that is said soon, or run by the
cluster itself, whatever becomes of the machine that sent them."""

import os
import socket
import subprocess
import sys
import time
from importlib.resources import files

import pytest
from heads import claiming, running_head
from mlflow_servers import HOST, free_port
from ray_clusters import mmbsgd, until
from running import assert_whole, lines, loaded

from workflows.cluster import connect
from workflows.commands.submit import _end
from workflows.errors import ClusterError
from workflows.jobs import Jobs, Submitted, luggage

pytestmark = [pytest.mark.xdist_group("ray-jobs"), pytest.mark.compiled_only]

SECONDS_TO_REFUSE = 30.0
"""Twice what is promised: machines that run tests have much to do."""
SECONDS = 180.0
QUICK = ("--rows", 2000, "--trials", 12, "--confirm", 1, "--no-tracking")


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    with running_head(tmp_path_factory.mktemp("cluster") / "home") as made:
        yield made


def refused(words, env, cwd):
    """What the command says when it refuses, which it does soon and with exit code 2."""
    began = time.monotonic()
    process = mmbsgd(*words, env={"COLUMNS": "300", **env}, cwd=cwd)
    output, errors = process.communicate(timeout=SECONDS)
    took = time.monotonic() - began
    assert process.returncode == 2, output + errors
    assert took < SECONDS_TO_REFUSE, errors
    assert "Traceback" not in errors
    return " ".join(errors.split())


def tune_at(address):
    return ("tune", "demo", *QUICK, "--ray-address", address)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_nobody_listens_there(scheme, tmp_path):
    said = refused(tune_at(f"{scheme}{HOST}:{free_port()}"), {}, tmp_path)
    assert "no Ray cluster at" in said
    assert "Connection refused" in said


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_what_listens_there_says_nothing(scheme, tmp_path):
    with socket.create_server((HOST, 0)) as silent:
        said = refused(tune_at(f"{scheme}{HOST}:{silent.getsockname()[1]}"), {}, tmp_path)
    assert "no Ray cluster at" in said


@pytest.mark.parametrize("address", ["ray://", "somewhere", "ray://somewhere:port"])
def test_what_is_no_address_of_a_cluster(address):
    with pytest.raises(ClusterError, match="write 'auto', HOST:PORT or ray://HOST:PORT"):
        connect(address)


def test_no_cluster_is_found(monkeypatch):
    # Others may have some on this machine, running or noted as the latest.
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda temp_dir: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ClusterError, match="--ray-address HOST:PORT"):
        connect("auto")


@pytest.mark.parametrize("words", [("submit", "demo"), ("status",), ("stop",)])
def test_no_dashboard_listens_there(words, tmp_path):
    said = refused((*words, "--cluster", f"http://{HOST}:{free_port()}"), {}, tmp_path)
    assert "Connection refused" in said


@pytest.mark.parametrize("address", ["ray://somewhere:1", "somewhere:bad", "http://somewhere:99999", "http://[::1"])
def test_what_is_no_address_of_a_dashboard(address, tmp_path):
    assert "is not the address of Ray's dashboard" in refused(("status", "--cluster", address), {}, tmp_path)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--ray-address", "auto"), "--ray-address is not for submit"),
        (("--workers", "0"), "--workers 0 is not for submit"),
        (("--storage", "postgresql+psycopg://me:secret@db/studies"), "PGPASSFILE"),
        (("--tracking-uri", "http://me:secret@mlflow"), "MLFLOW_TRACKING_URI"),
        (("--trails", "5"), "No such option"),
        (("--study", "a b"), "a name is letters"),
        (("--enqueue", "C"), "NAME=VALUE"),
        (("--space", "nowhere.toml"), "nowhere.toml"),
        (("--json",), "--json is not for submit"),
        (("--trials", "many"), "valid integer"),
    ],
)
def test_a_job_that_cannot_work_is_not_sent(options, reason, tmp_path):
    said = refused(("submit", "demo", *options, "--cluster", f"http://{HOST}:{free_port()}"), {}, tmp_path)
    assert reason in said
    assert "secret" not in said


def test_a_head_without_the_package():
    with pytest.raises(ClusterError, match="no command mmbsgd"):
        _end(Submitted("job", "FAILED", "mmbsgd tune demo", "exit code 127", 1.0, 2.0, 127))


def test_small_files_travel_and_large_ones_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr("workflows.jobs.LARGEST_UPLOAD", 100)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    sizes = {"small.csv": 99, "large.csv": 101, "folder/a": 60, "folder/b": 60}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(bytes(size))
    found = luggage(["./small.csv", "large.csv", "folder//", "nowhere", None])
    assert [(each.word, each.path.name, each.travels) for each in found] == [
        ("./small.csv", "small.csv", True),
        ("large.csv", "large.csv", False),
        ("folder//", "folder", False),
    ]
    assert all(each.path.is_absolute() for each in found)


def test_files_of_the_same_name_do_not_get_into_each_others_way(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    one, other = luggage([str(tmp_path / "a" / "x"), str(tmp_path / "b" / "x")])
    assert one.place != other.place


@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDED"])
def test_a_name_that_several_jobs_have_means_the_latest(monkeypatch, state):
    def job(name, state, began, study):
        return Submitted(name, state, "", "", began, None, None, study)

    sent = [job("demo-3", "STOPPED", 3.0, "demo"), job("demo-2", state, 2.0, "demo"), job("x-1", "FAILED", 1.0, "long")]
    monkeypatch.setattr(Jobs, "all", lambda self: sent)
    jobs = object.__new__(Jobs)
    running = state == "RUNNING"
    assert jobs.find("demo").name == ("demo-2" if running else "demo-3")
    assert jobs.find(None).name == ("demo-2" if running else "demo-3")
    assert jobs.find("long").name == "x-1"
    assert jobs.find("demo-2").name == "demo-2"
    with pytest.raises(ClusterError, match="no job 'other'; the latest: demo-3"):
        jobs.find("other")


@pytest.mark.long
@pytest.mark.parametrize("place", ["address", "client"])
@pytest.mark.parametrize(
    "env",
    [
        {"RAY_AUTH_MODE": "disabled"},
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 32},
        {"RAY_AUTH_MODE": "token", "HOME": "/nowhere"},
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/nowhere/token"},
    ],
    ids=["disabled", "wrong", "none", "unreadable"],
)
def test_without_the_token_nothing_is_done(head, place, env, tmp_path):
    for words in (tune_at(getattr(head, place)), ("submit", "demo", "--cluster", head.dashboard)):
        said = refused(words, env, tmp_path)
        assert "token" in said
        assert "RAY_AUTH_TOKEN_PATH" in said
        assert head.token not in said
        if "RAY_AUTH_TOKEN_PATH" in env:
            assert "/nowhere/token, and there is no such file" in said


@pytest.mark.long
def test_a_cluster_of_other_versions(head, tmp_path):
    with claiming(head, ray_version="2.9.3", python_version="3.10.1"):
        said = refused(tune_at(head.address), head.admission, tmp_path)
    assert "Ray 2.9.3 and Python 3.10.1" in said
    assert "mmbsgd submit" in said


@pytest.mark.long
def test_the_port_of_another_service(head, tmp_path):
    assert "another service" in refused(tune_at(head.client.removeprefix("ray://")), head.admission, tmp_path)
    assert "another service" in refused(tune_at(f"ray://{head.address}"), head.admission, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("place", ["address", "client"])
def test_the_same_study_from_within_and_from_outside(head, place, tmp_path):
    code, output, errors = head.run(*tune_at(getattr(head, place)), cwd=tmp_path)
    assert code == 0, errors
    assert "12 trials complete" in output
    assert_whole(tmp_path / "mmbsgd-home" / "studies" / "demo.journal", "demo", 12)


SILENT = """
import sys, time
from workflows.cluster import connect
connect(sys.argv[1])
import ray

@ray.remote
class Worker:
    def think(self):
        time.sleep(25)
        return "done"

print(ray.get(Worker.remote().think.remote()))
"""


@pytest.mark.long
def test_a_worker_may_be_silent_for_long(head):
    """While it compiles, or trains: on nodes that were started without any special environment."""
    words = [sys.executable, "-c", SILENT, head.address]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        words, env=kept | head.admission, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.stdout == "done\n", done.stderr
    assert "ping" not in done.stderr


@pytest.mark.long
def test_the_environment_leads_to_the_cluster(head, tmp_path):
    """As in the containers: no option is needed."""
    where = {"RAY_ADDRESS": head.address, "MMBSGD_HOME": str(tmp_path / "kept")}
    code, output, errors = head.run("tune", "demo", *QUICK, env=head.admission | where, cwd=tmp_path)
    assert code == 0, errors
    assert f"joining the Ray cluster at {head.address}" in output
    assert_whole(tmp_path / "kept" / "studies" / "demo.journal", "demo", 12)
    code, output, errors = head.run("tune", "demo", *QUICK, "--workers", 0, env=where, cwd=tmp_path)
    assert code == 0, errors


@pytest.mark.long
def test_a_job_runs_to_its_end(head, tmp_path):
    code, output, errors = head.job("submit", "demo", "--study", "whole", *QUICK, cwd=tmp_path)
    assert code == 0, output + errors
    assert "12 trials complete" in output
    assert_whole(head.home / "studies" / "whole.journal", "whole", 12)
    assert not (tmp_path / "mmbsgd-home").exists()
    code, output, errors = head.job("status")
    assert code == 0, errors
    assert "succeeded" in output


@pytest.mark.long
def test_files_of_this_machine_travel_with_it(head, tmp_path):
    rows = [f"{x / 40},{y / 40},{'odd' if (x // 10 + y // 10) % 2 else 'even'}" for x in range(40) for y in range(40)]
    (tmp_path / "my board.csv").write_text("\n".join(["x,y,field", *rows]))
    shipped = files("search_spaces").joinpath("default.toml").read_text()
    (tmp_path / "mine.toml").write_text(shipped)
    words = ("submit", "./my board.csv", "--label", "field", "--space", "./mine.toml", "--study", "sent", *QUICK[2:])
    code, output, errors = head.job(*words, cwd=tmp_path)
    assert code == 0, output + errors
    assert_whole(head.home / "studies" / "sent.journal", "sent", 12)


@pytest.mark.long
def test_a_mistake_on_the_cluster_is_told_here(head, tmp_path):
    code, output, errors = head.job("submit", "/nowhere/adult", cwd=tmp_path)
    assert code == 2, errors
    assert "/nowhere/adult" in output
    assert "Traceback" not in output


@pytest.mark.long
def test_it_goes_on_when_its_sender_is_killed_and_where_it_was_stopped(head, tmp_path):
    words = ("submit", "demo", "--rows", 100_000, "--study", "long", "--confirm", 0, "--no-tracking")
    journal = head.home / "studies" / "long.journal"
    with mmbsgd(*words, "--trials", 10**6, "--cluster", head.dashboard, env=head.admission, cwd=tmp_path) as sender:
        until(lambda: sender.poll() is not None or lines(journal) > 50, SECONDS, "trials")
        sender.kill()
    seen = lines(journal)
    until(lambda: lines(journal) > seen + 50, SECONDS, "trials without a sender")
    (running,) = [name for name, job in head.jobs().items() if job["state"] == "RUNNING"]
    code, _, errors = head.job("stop", cwd=tmp_path)  # the one that runs
    assert code == 0, errors
    assert head.jobs()[running]["state"] == "STOPPED"
    trials, _ = loaded(journal, "long")
    stopped = len({trial.user_attrs["origin"] for trial in trials})
    code, output, errors = head.job(*words, "--trials", stopped + 5, cwd=tmp_path)
    assert code == 0, output + errors
    assert_whole(journal, "long", stopped + 5)
