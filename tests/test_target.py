"""The prepared folder appears whole or not at all, whatever happens meanwhile."""

import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prepared import entries, fingerprints, gathered, prepared, unchanged

from workflows.data import PreparedData
from workflows.data.places import place
from workflows.data.target import writing
from workflows.errors import DataError

SECONDS = 60


def test_the_folder_appears_when_everything_is_in_it(tmp_path):
    target = tmp_path / "new" / "out"
    with writing(place(target), replace=False) as made:
        folder, scratch = made.folder, made.scratch
        folder.child("a.arrow").write(b"rows")
        (scratch / "block").write_bytes(b"aside")
        assert not target.exists()
        [hidden] = entries(target.parent)
        assert hidden.startswith(".out")
    assert entries(target.parent) == ["out"]
    assert entries(target) == ["a.arrow"]
    assert (target / "a.arrow").read_bytes() == b"rows"


@pytest.mark.parametrize(
    "error", [DataError("no"), OSError(28, "full"), KeyboardInterrupt(), SystemExit(1), MemoryError()]
)
def test_nothing_is_left_when_writing_fails(tmp_path, error):
    def fail():
        with writing(place(tmp_path / "out"), replace=False) as made:
            folder, scratch = made.folder, made.scratch
            folder.child("a.arrow").write(b"rows")
            (scratch / "block").write_bytes(b"aside")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert entries(tmp_path) == []


def test_a_folder_of_others_is_refused(tmp_path):
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "thesis.tex").write_text("years")
    for replace in (False, True):
        with pytest.raises(DataError, match="out holds other files: choose a new folder"):
            prepared(tmp_path / "out", replace=replace)
    assert (tmp_path / "out" / "deep" / "thesis.tex").read_text() == "years"
    assert entries(tmp_path) == ["out"]


@pytest.mark.parametrize("name", [".git/config", ".env", "_notes.txt"])
def test_hidden_files_of_others_are_not_deleted(tmp_path, name):
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    (tmp_path / "out" / name).write_text("precious")
    with pytest.raises(DataError, match="holds other files"):
        prepared(tmp_path / "out")
    assert (tmp_path / "out" / name).read_text() == "precious"


def test_replacing_deletes_nothing_that_prepare_did_not_write(tmp_path):
    prepared(tmp_path / "out")
    (tmp_path / "out" / "model.arrow").write_text("precious")
    with pytest.raises(DataError, match="holds other files"):
        prepared(tmp_path / "out", replace=True)
    assert (tmp_path / "out" / "model.arrow").read_text() == "precious"


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "out").mkdir()
    prepared(tmp_path / "out")
    assert entries(tmp_path) == ["out"]


def test_a_prepared_folder_is_replaced_only_on_request(tmp_path):
    first = prepared(tmp_path / "out", rows=100).manifest
    with unchanged(tmp_path), pytest.raises(DataError, match=r"already holds a prepared data set: .*--replace"):
        prepared(tmp_path / "out", rows=200)
    assert PreparedData.open(tmp_path / "out").manifest == first
    second = prepared(tmp_path / "out", rows=200, replace=True)
    assert second.manifest.rows == 200
    assert len(gathered(second)[0]) == 200
    assert entries(tmp_path) == ["out"]
    assert len(entries(tmp_path / "out")) == 1 + len(second.manifest.partitions)


@pytest.mark.parametrize("change", [lambda text: text[:50], lambda text: text.replace('"version": 1', '"version": 99')])
def test_a_data_set_that_cannot_be_read_can_be_replaced(tmp_path, change):
    prepared(tmp_path / "out", rows=100)
    manifest = tmp_path / "out" / "manifest.json"
    manifest.write_text(change(manifest.read_text()))
    assert prepared(tmp_path / "out", rows=200, replace=True).manifest.rows == 200
    assert entries(tmp_path) == ["out"]


def test_the_old_folder_stays_when_its_replacement_fails(tmp_path):
    first = prepared(tmp_path / "out", rows=100).manifest
    with unchanged(tmp_path), pytest.raises(DataError, match="nowhere"):
        prepared(tmp_path / "out", "nowhere", replace=True)
    assert PreparedData.open(tmp_path / "out").manifest == first
    assert len(gathered(PreparedData.open(tmp_path / "out"))[0]) == 100


def test_the_old_folder_comes_back_when_the_last_step_fails(tmp_path, monkeypatch):
    first = prepared(tmp_path / "out", rows=100).manifest
    rename, calls = os.rename, []

    def failing(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "full")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(DataError, match="No space left"):
        prepared(tmp_path / "out", rows=200, replace=True)
    assert PreparedData.open(tmp_path / "out").manifest == first
    assert entries(tmp_path) == ["out"]


def test_whoever_reads_the_old_folder_goes_on_reading_it(tmp_path):
    old = prepared(tmp_path / "out", rows=100)
    partition = old.partition(old.manifest.partitions[0])
    before = partition.matrix.tobytes()
    prepared(tmp_path / "out", rows=300, seed=7, replace=True)
    assert partition.matrix.tobytes() == before


def test_a_file_is_not_overwritten(tmp_path):
    (tmp_path / "out").write_text("a file")
    with unchanged(tmp_path), pytest.raises(DataError, match="out is a file: choose another name"):
        prepared(tmp_path / "out", replace=True)
    assert (tmp_path / "out").read_text() == "a file"


@pytest.mark.parametrize(
    "below",
    [
        "out",
        "deeper/out",
    ],
)
def test_a_folder_below_a_file_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("a file")
    with unchanged(tmp_path), pytest.raises(DataError, match=r"cannot write .*a part of that path is a file"):
        prepared(tmp_path / "file" / below)


def test_a_link_to_a_folder_is_no_trap(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    prepared(tmp_path / "out")
    assert len(gathered(PreparedData.open(tmp_path / "out"))[0]) == 600
    assert entries(tmp_path) == ["disk", "out"]


def test_a_link_to_nowhere_is_refused(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "gone")
    with unchanged(tmp_path), pytest.raises(DataError, match="out"):
        prepared(tmp_path / "out")


@pytest.mark.parametrize(
    "name",
    [
        "out",
        "a b",
        "ä",
        "-x",
        "a.b",
        "a[1]",
    ],
)
def test_remains_of_a_dead_writer_are_cleared_by_the_next(tmp_path, name):
    remains = dead_writer(tmp_path / name)
    assert [hidden.name for hidden in remains] == [entry for entry in entries(tmp_path) if entry != name]
    prepared(tmp_path / name)
    assert entries(tmp_path) == [name]


def dead_writer(target):
    """What is left of a process that was killed while it was writing; nobody holds its lock."""
    with writing(place(target), replace=False) as made:
        folder = made.folder
        folder.child("train-00000.arrow").write(b"half")
        hidden = Path(folder.path)
        shutil.copytree(hidden, hidden.with_name(hidden.name[:-1] + "x"))
    shutil.rmtree(target)
    return [hidden.with_name(hidden.name[:-1] + "x")]


def test_remains_of_a_writer_that_died_before_its_lock_are_cleared(tmp_path):
    [remains] = dead_writer(tmp_path / "out")
    (remains / "lock").unlink()
    prepared(tmp_path / "out")
    assert entries(tmp_path) == ["out"]


def test_the_folder_of_a_living_writer_is_left_alone(tmp_path):
    with writing(place(tmp_path / "out"), replace=True) as made:
        folder = made.folder
        folder.child("a.arrow").write(b"rows")
        prepared(tmp_path / "out")
        assert folder.child("a.arrow").is_file()
    assert entries(tmp_path) == ["out"]
    assert entries(tmp_path / "out") == ["a.arrow"]


def test_remains_of_other_targets_are_left_alone(tmp_path):
    [remains] = dead_writer(tmp_path / "other")
    prepared(tmp_path / "out")
    assert remains.is_dir()


def test_the_lock_is_held_while_writing(tmp_path):
    with writing(place(tmp_path / "out"), replace=False) as made:
        folder = made.folder
        path = Path(folder.path) / "lock"
        with open(path) as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_two_writers_at_the_same_time_do_not_mix(tmp_path):
    """Both begin before either ends: the target is the whole of one of them."""
    both = threading.Barrier(2)
    failures = []

    def write(mark):
        try:
            with writing(place(tmp_path / "out"), replace=True) as made:
                folder = made.folder
                both.wait(SECONDS)
                for number in range(20):
                    folder.child(f"{number}").write(mark)
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(mark,)) for mark in (b"a", b"b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(SECONDS)
    assert len(failures) <= 1
    assert entries(tmp_path) == ["out"]
    assert len({(tmp_path / "out" / name).read_bytes() for name in entries(tmp_path / "out")}) == 1
    assert len(entries(tmp_path / "out")) == 20


def test_a_new_folder_has_the_permissions_of_a_new_folder(tmp_path):
    prepared(tmp_path / "out")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "file").touch()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode
    for file in (tmp_path / "out").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE((tmp_path / "plain" / "file").stat().st_mode)


# Real processes, killed, and real disks that are full, read-only or another user's.


@contextmanager
def silent_store():
    """An S3 store with one object of 100 MB that never comes; an event tells that somebody waits for it."""
    asked, over = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(200)
            self.send_header("Content-Length", str(100 << 20))
            self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
            self.end_headers()

        def do_GET(self):
            asked.set()
            over.wait()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            over.set()
            server.shutdown()
            serving.join()


@contextmanager
def started(*command, **options):
    """A process that is gone afterwards."""
    process = subprocess.Popen([sys.executable, *command], text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_command_killed_while_reading_leaves_no_target_and_its_remains_are_cleared(tmp_path):
    with silent_store() as (address, asked):
        source = f"s3://key:secret@bucket/in.svm?endpoint_override={address}&scheme=http&region=us-east-1"
        command = ["-m", "workflows.cli", "prepare", source, "--out", str(tmp_path / "out")]
        with started(*command, stdout=subprocess.DEVNULL) as process:
            assert asked.wait(SECONDS)
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            assert process.wait(SECONDS) == -signal.SIGKILL
    [remains] = entries(tmp_path)
    assert remains.startswith(".out")
    prepared(tmp_path / "out")
    assert entries(tmp_path) == ["out"]


WAITING = """
import select, sys
from workflows.data import Request, prepare

def report(stage, done, total):
    if stage == "writing partitions" and done == 3:
        print("three written", flush=True)
        while not select.select([sys.stdin], [], [], 0.1)[0]:  # a read just begun would miss the signal
            pass

prepare(Request("demo", sys.argv[1], rows=600, rows_per_partition=50, replace=True, workers=2), report)
"""


@pytest.mark.parametrize(("number", "remains"), [(signal.SIGKILL, 1), (signal.SIGINT, 0)])
def test_a_process_ended_while_writing_leaves_the_old_folder_as_it_was(tmp_path, number, remains):
    old = prepared(tmp_path / "out", rows=100).manifest
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with started("-c", WAITING, str(tmp_path / "out"), **pipes) as process, process.stdin, process.stdout:
        assert process.stdout.readline() == "three written\n"
        process.send_signal(number)
        assert process.wait(SECONDS) == -number
    hidden = [entry for entry in entries(tmp_path) if entry != "out"]
    assert len(hidden) == remains
    assert all("train-00000.arrow" in entries(tmp_path / entry) for entry in hidden)
    assert PreparedData.open(tmp_path / "out").manifest == old
    assert len(gathered(PreparedData.open(tmp_path / "out"))[0]) == 100
    again = prepared(tmp_path / "out", rows=600, rows_per_partition=50, replace=True)
    assert entries(tmp_path) == ["out"]
    assert fingerprints(again.manifest) == fingerprints(
        prepared(tmp_path / "other", rows=600, rows_per_partition=50).manifest
    )


DISKS = {
    "no room for the rows": "size=400k",
    "no room for the partitions": "size=5m",
    "no room for a file": "nr_inodes=2",
    "read-only": "ro",
}

ON_DISKS = """
import json, os, subprocess, sys
from workflows.cli import main

def command(folder):
    sys.argv = ["mmbsgd", "prepare", "demo", "--rows", "400000", "--workers", "1", "--out", folder + "/out"]
    sys.stderr = open("stderr", "w")
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except Exception as error:
        code = repr(error)
    sys.stderr.close()
    sys.stderr = sys.__stderr__
    with open("stderr") as said:
        return code, said.read(), os.listdir(folder)

found = {}
for name, options in json.loads(sys.argv[1]).items():
    os.mkdir(name)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", name], check=True)
    found[name] = command(name)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def on_disks(tmp_path_factory):
    """Exit code, error output and what is left, for each of the disks."""
    for namespace in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        may = shutil.which("unshare") and subprocess.run(
            [*namespace, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        )
        if may and may.returncode == 0:
            break
    else:
        pytest.skip("no disks of a given size: this user may not mount in a namespace of its own")
    folder = tmp_path_factory.mktemp("disks")
    done = subprocess.run(
        [*namespace, sys.executable, "-c", ON_DISKS, json.dumps(DISKS)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"COLUMNS": "500", "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=SECONDS,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        ("no room for the rows", "No space left on device; free some space"),
        ("no room for the partitions", "MB are free; free some space"),
        ("no room for a file", "No space left on device; free some space"),
        ("read-only", "Read-only file system; choose another folder"),
    ],
)
def test_a_disk_that_cannot_be_written_to_is_a_message_and_nothing_is_left(on_disks, disk, reason):
    code, said, left = on_disks[disk]
    assert left == []
    assert code == 2, said
    assert reason in said
    assert "out" in said
    assert len(said.strip().splitlines()) == 1


AS_NOBODY = """
import os, sys
from workflows.cli import main

def command(out):
    sys.argv = ["mmbsgd", "prepare", "demo", "--rows", "1000", "--workers", "2", "--out", out]
    main()

for _ in ("well", "refused"):  # loads everything while this user may
    try:
        command("warm")
    except SystemExit:
        pass
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
print("---", file=sys.stderr, flush=True)
command("locked/out")
"""


def test_a_folder_of_another_user_is_a_message_and_nothing_is_left():
    with tempfile.TemporaryDirectory() as folder:  # the folders of pytest are closed to other users
        os.chmod(folder, 0o755)
        locked = Path(folder) / "locked"
        locked.mkdir(mode=0o555)
        # Nobody may not write what coverage finds.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY],
            capture_output=True,
            text=True,
            cwd=folder,
            env=kept | {"COLUMNS": "500", "PYTHONPATH": str(Path(__file__).parents[1])},
            timeout=SECONDS,
            check=False,
        )
        said = done.stderr.partition("---\n")[2]
        assert done.returncode == 2, done.stderr
        assert "cannot write locked/out: Permission denied; check who may read and write there" in said
        assert len(said.strip().splitlines()) == 1
        assert entries(locked) == []


@pytest.mark.parametrize("replace", [False, True])
def test_what_others_put_there_meanwhile_is_not_deleted(tmp_path, replace):
    def write():
        with writing(place(tmp_path / "out"), replace=replace):
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "thesis.tex").write_text("years")

    with pytest.raises(DataError, match="holds other files"):
        write()
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years"
    assert entries(tmp_path) == ["out"]


def test_of_two_writers_at_once_the_second_finds_the_data_set_of_the_first(tmp_path):
    with pytest.raises(DataError, match="already holds"), writing(place(tmp_path / "out"), replace=False):
        first = prepared(tmp_path / "out")
    assert PreparedData.open(tmp_path / "out").manifest == first.manifest
    assert entries(tmp_path) == ["out"]


def test_a_set_that_a_dead_writer_had_moved_aside_comes_back(tmp_path):
    first = prepared(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / ".out.replaced-0123")
    with pytest.raises(DataError, match="already holds"):
        prepared(tmp_path / "out")
    assert PreparedData.open(tmp_path / "out").manifest == first.manifest
    assert entries(tmp_path) == ["out"]
