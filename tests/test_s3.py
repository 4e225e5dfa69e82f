"""An object store instead of a disk: the same partitions, nothing half-written, and no secret in anything shown."""

import json
import sys

import numpy as np
import pytest
from moto.server import ThreadedMotoServer
from prepared import class_blocks, fingerprints, gathered, multiset, prepared, write_csv, write_libsvm, write_parquet
from pyarrow import fs

from mmbsgd import MultiMergeSVC
from workflows.cli import main
from workflows.data import PreparedData
from workflows.data.known import FOLDER_VARIABLE, KNOWN, KnownSet
from workflows.data.resolve import open_data
from workflows.errors import DataError

KEY, SECRET = "THEACCESSKEY", "THESECRETKEY"


class Store:
    """A bucket, by URI as users write it and by path to look into it."""

    def __init__(self, address):
        self.options = f"?endpoint_override={address}&scheme=http&region=us-east-1"
        self.inside = fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            endpoint_override=address,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def uri(self, path):
        return f"s3://{KEY}:{SECRET}@{path}{self.options}"

    def write(self, path, content):
        with self.inside.open_output_stream(path) as stream:
            stream.write(content)

    def read(self, path):
        with self.inside.open_input_file(path) as stream:
            return stream.read()

    def files(self, path):
        found = self.inside.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        return sorted(item.path for item in found if item.type == fs.FileType.File)


@pytest.fixture(scope="module")
def store():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    made = Store(f"{host}:{port}")
    made.inside.create_dir("bucket")
    yield made
    server.stop()


def assert_no_secret(*shown):
    for text in shown:
        joined = "".join(text.split())  # a narrow terminal breaks lines anywhere
        assert KEY not in joined
        assert SECRET not in joined


def test_from_the_store_to_the_store_and_a_model(store, tmp_path):
    matrix, labels = class_blocks(1, rows=150)
    local = write_csv(tmp_path / "in.csv", matrix, labels)
    store.write("bucket/in.csv", (tmp_path / "in.csv").read_bytes())
    options = {"rows_per_partition": 40, "scale": "standard", "seed": 2}
    there = prepared(store.uri("bucket/from-store"), store.uri("bucket/in.csv"), **options)
    here = prepared(tmp_path / "out", local, **options)
    assert fingerprints(there.manifest) == fingerprints(here.manifest)
    assert there.manifest.fingerprint == here.manifest.fingerprint
    names = sorted(["manifest.json", *(part.file for part in there.manifest.partitions)])
    assert store.files("bucket/from-store") == [f"bucket/from-store/{name}" for name in names]
    models = [
        MultiMergeSVC(budget=10, random_state=1).fit_portions(data.split("train")).model_ for data in (there, here)
    ]
    assert models[0].coefficients.tobytes() == models[1].coefficients.tobytes()
    scores, codes = there.split("test").decide(models[0])
    assert np.mean((scores > 0) == codes) > 0.7


def test_a_folder_of_parquet_files_in_the_store(store, tmp_path):
    matrix, labels = class_blocks(2, rows=100)
    for number, rows in enumerate((slice(0, 60), slice(60, 100))):
        write_parquet(tmp_path / "part.parquet", matrix[rows], labels[rows])
        store.write(f"bucket/tables/{number}.parquet", (tmp_path / "part.parquet").read_bytes())
    data = prepared(tmp_path / "out", store.uri("bucket/tables"))
    assert multiset(*gathered(data)) == multiset(matrix, labels)
    assert_no_secret(json.dumps(data.manifest.model_dump(mode="json")))


def test_a_file_in_the_store_is_prepared_once_by_a_command(store, tmp_path):
    write_csv(tmp_path / "in.csv", *class_blocks(3))
    store.write("bucket/once.csv", (tmp_path / "in.csv").read_bytes())
    stages = []
    for _ in range(2):
        data = open_data(
            store.uri("bucket/once.csv"), tmp_path / "home", lambda stage, *_: stages.append(stage), rows=10
        )
    assert stages.count("writing partitions") == 3
    assert data.manifest.rows == 120


def test_failures_leave_nothing_in_the_store(store, tmp_path):
    store.write("bucket/broken.svm", b"+1 1:1\n-1 1:x\n")
    with pytest.raises(DataError, match=r"broken\.svm.*line 2") as failed:
        prepared(store.uri("bucket/failed"), store.uri("bucket/broken.svm"))
    assert_no_secret(str(failed.value))
    assert store.files("bucket/failed") == []


def test_a_folder_in_the_store_is_replaced_only_on_request(store):
    where = store.uri("bucket/again")
    prepared(where, rows=100, rows_per_partition=20)
    with pytest.raises(DataError, match=r"already holds a prepared data set.*--replace") as failed:
        prepared(where, rows=200)
    assert_no_secret(str(failed.value))
    assert prepared(where, rows=200, replace=True).manifest.rows == 200
    assert len(store.files("bucket/again")) == 4
    store.write("bucket/others/thesis.tex", b"years")
    with pytest.raises(DataError, match="holds other files"):
        prepared(store.uri("bucket/others"), replace=True)
    assert store.files("bucket/others") == ["bucket/others/thesis.tex"]


def test_a_mistake_in_replacing_leaves_the_old_data_set_in_the_store(store):
    where = store.uri("bucket/kept")
    prepared(where, rows=100)
    with pytest.raises(DataError, match="nowhere"):
        prepared(where, "nowhere.csv", replace=True)
    assert len(gathered(PreparedData.open(where))[0]) == 100


def test_remains_of_a_dead_writer_in_the_store_are_cleared_by_the_next(store):
    where = store.uri("bucket/remains")
    prepared(where, rows=100, rows_per_partition=20)
    store.inside.delete_file("bucket/remains/manifest.json")  # it is written last
    assert prepared(where, rows=100).manifest.rows == 100
    assert len(store.files("bucket/remains")) == 4


def test_without_its_manifest_a_folder_in_the_store_is_no_data_set(store):
    prepared(store.uri("bucket/unfinished"), rows=100)
    store.inside.delete_file("bucket/unfinished/manifest.json")
    with pytest.raises(DataError, match=r"not a prepared data set") as failed:
        PreparedData.open(store.uri("bucket/unfinished"))
    assert_no_secret(str(failed.value))


def test_damage_in_the_store_is_found(store):
    data = prepared(store.uri("bucket/damaged"), rows=100)
    path = f"bucket/damaged/{data.manifest.partitions[0].file}"
    content = bytearray(store.read(path))
    content[len(content) // 2] ^= 1
    store.write(path, bytes(content))
    with pytest.raises(DataError, match=r"is damaged: .*fingerprint") as failed:
        data.split("train").each(len)
    assert_no_secret(str(failed.value))


@pytest.mark.parametrize("path", ["bucket/gone.csv", "nobucket/in.csv"])
def test_what_is_not_in_the_store_is_one_line(store, tmp_path, path):
    with pytest.raises(DataError, match=path.rpartition("/")[2]) as failed:
        prepared(tmp_path / "out", store.uri(path))
    assert_no_secret(str(failed.value))
    assert "\n" not in str(failed.value)
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_is_not_there_cannot_be_written_to(store):
    with pytest.raises(DataError, match="nobucket") as failed:
        prepared(store.uri("nobucket/out"), rows=100)
    assert_no_secret(str(failed.value))


def shown_by(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["mmbsgd", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return ended.value.code, said.out + said.err


def test_commands_show_no_secret(store, monkeypatch, capsys, tmp_path):
    where = store.uri("bucket/shown")
    for arguments in (
        ["prepare", "demo", "--rows", "300", "--out", where],
        ["data", "show", where, "--check"],
        ["train", where, "--epochs", "1", "--budget", "10", "--out", str(tmp_path / "model")],
    ):
        code, shown = shown_by(monkeypatch, capsys, *arguments)
        assert code == 0, shown
        assert_no_secret(shown)
    assert_no_secret(store.read("bucket/shown/manifest.json").decode())
    assert SECRET.encode() not in (tmp_path / "model").read_bytes()
    for arguments in (["data", "show", store.uri("bucket/nothing")], ["train", store.uri("bucket/nothing")]):
        code, shown = shown_by(monkeypatch, capsys, *arguments)
        assert code == 2
        assert_no_secret(shown)


def test_a_whole_bucket_is_shown_without_its_secret(store, monkeypatch, capsys):
    store.inside.create_dir("whole")
    prepared(store.uri("whole"), rows=100)
    code, shown = shown_by(monkeypatch, capsys, "data", "show", store.uri("whole"))
    assert code == 0, shown
    assert_no_secret(shown)


def test_advice_shows_no_secret(store, monkeypatch, capsys, tmp_path):
    write_libsvm(tmp_path / "tiny", *class_blocks(4, rows=80))
    monkeypatch.setitem(KNOWN, "tiny", KnownSet("tiny", "tiny", None, 20, 60, 4, 1.0, 0.5, ("tiny",)))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    code, shown = shown_by(monkeypatch, capsys, "data", "get", "tiny", "--out", store.uri("bucket/tiny"))
    assert code == 0, shown
    assert_no_secret(shown)
