"""The paper's data sets: found or downloaded whole, prepared to the sizes that are published, good for training."""

import gc
import socket
import threading
import warnings
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from prepared import class_blocks, entries, gathered, multiset, write_libsvm

from mmbsgd import MultiMergeSVC
from workflows.data import PreparedData, prepare
from workflows.data.known import FOLDER_VARIABLE, KNOWN, KnownSet, known_set, request
from workflows.errors import DataError

TINY = KnownSet("tiny", "tiny", "tiny.t", 30, 80, 4, 1.0, 0.5, ("tiny.svm", "tiny.t.svm"))


def silent(stage, done, total):
    pass


@contextmanager
def serving(answer):
    """A collection on this machine; `answer` is called with the handler of each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def answer_with(content, length=None, status=200):
    def answer(handler):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No folder of data sets, unless a test names one."""
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def files(tmp_path):
    """What the collection holds of the tiny set."""
    (tmp_path / "collection").mkdir()
    train, test = class_blocks(1, rows=80), class_blocks(2, rows=30)
    write_libsvm(tmp_path / "collection" / "tiny.svm", *train)
    write_libsvm(tmp_path / "collection" / "tiny.t.svm", *test)
    return tmp_path / "collection", train, test


def test_a_set_is_downloaded_once_and_prepared(tmp_path, files):
    folder, train, test = files
    asked, seen = [], []

    def answer(handler):
        asked.append(handler.path)
        answer_with((folder / handler.path[1:]).read_bytes())(handler)

    with serving(answer) as collection:
        for _ in range(2):
            wanted = request(
                TINY,
                str(tmp_path / "out"),
                tmp_path / "kept",
                lambda *report: seen.append(report),
                collection=collection,
            )
    assert asked == ["/tiny.svm", "/tiny.t.svm"]
    assert entries(tmp_path / "kept") == ["tiny.svm", "tiny.t.svm"]
    assert seen[-1][1] == seen[-1][2] == (folder / "tiny.t.svm").stat().st_size
    prepare(wanted)
    data = PreparedData.open(tmp_path / "out")
    assert multiset(*gathered(data, "train", "validation")) == multiset(*train)
    assert multiset(*gathered(data, "test")) == multiset(*test)


def test_files_in_the_named_folder_are_used_first(tmp_path, files, monkeypatch):
    folder, train, _ = files
    (folder / "tiny.svm").rename(folder / "tiny")
    (folder / "tiny.t.svm").rename(folder / "tiny.t")
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    wanted = request(TINY, str(tmp_path / "out"), tmp_path / "kept", silent, collection="http://127.0.0.1:1")
    assert (wanted.source, wanted.test) == (str(folder / "tiny"), str(folder / "tiny.t"))
    assert not (tmp_path / "kept").exists()
    prepare(wanted)
    assert multiset(*gathered(PreparedData.open(tmp_path / "out"), "train", "validation")) == multiset(*train)


def chunked_and_cut(handler):
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"100\r\n+1 1:1\n")
    handler.close_connection = True


def no_http(handler):
    handler.wfile.write(b"+1 1:1\n" * 10)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(answer_with(b"+1 1:1\n" * 100, length=100_000), "only 700 of 100,000 bytes", id="cut off"),
        pytest.param(answer_with(b"", length=100_000), "only 0 of 100,000 bytes", id="nothing came"),
        pytest.param(answer_with(b"gone", status=404), "Not Found", id="404"),
        pytest.param(answer_with(b"sorry", status=503), "Service Unavailable", id="503"),
        pytest.param(lambda handler: None, "", id="hung up"),
        pytest.param(chunked_and_cut, "", id="cut chunk"),
        pytest.param(no_http, "", id="no HTTP"),
    ],
)
def test_a_download_that_fails_leaves_nothing_and_says_where_to_put_the_file(tmp_path, answer, reason):
    with serving(answer) as collection, unclosed():
        message = failure(tmp_path, collection)
    assert f"cannot download {collection}/tiny.svm: " in message
    assert reason in message
    assert "put it into a folder as tiny or tiny.bz2, and set MMBSGD_DATA to that folder" in message
    assert "\n" not in message
    assert entries(tmp_path / "kept") == []


def failure(tmp_path, collection):
    with pytest.raises(DataError) as failed:
        request(TINY, str(tmp_path / "out"), tmp_path / "kept", silent, collection=collection)
    return str(failed.value)


@contextmanager
def unclosed():
    """Collects the warnings of connections that were left open."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        yield seen
        gc.collect()


def test_a_refusal_leaves_no_connection_open(tmp_path):
    with serving(answer_with(b"gone", status=404)) as collection, unclosed() as seen:
        failure(tmp_path, collection)
    assert [warning for warning in seen if warning.category is ResourceWarning] == []


def test_a_refused_connection_says_where_to_put_the_file(tmp_path):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, but nobody listens
        collection = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(DataError, match=r"cannot download .*Connection refused.*set MMBSGD_DATA"):
            request(TINY, str(tmp_path / "out"), tmp_path / "kept", silent, collection=collection)
    assert entries(tmp_path / "kept") == []


def test_a_download_that_failed_can_be_tried_again(tmp_path, files):
    folder, _, _ = files
    with serving(answer_with(b"+1", length=9)) as collection, pytest.raises(DataError):
        request(TINY, str(tmp_path / "out"), tmp_path / "kept", silent, collection=collection)
    with serving(lambda handler: answer_with((folder / handler.path[1:]).read_bytes())(handler)) as collection:
        wanted = request(TINY, str(tmp_path / "out"), tmp_path / "kept", silent, collection=collection)
    assert prepare(wanted).rows == 110


def test_downloads_need_a_folder_to_go_to(tmp_path):
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(DataError, match=r"cannot write to .*kept"):
        request(TINY, str(tmp_path / "out"), tmp_path / "kept", silent, collection="http://127.0.0.1:1")


def test_an_unknown_set_is_refused_with_those_there_are():
    with pytest.raises(DataError, match="no known data set 'mnist'; there are: adult, ijcnn, web, phishing, skin"):
        known_set("mnist")


PUBLISHED = {
    # Training rows, test rows, rows of both classes in training or in all, features, density; an accuracy to reach.
    "adult": (32_561, 16_281, {"train": (24_720, 7_841)}, 123, 0.113, 0.82),
    "ijcnn": (49_990, 91_701, {"train": (45_137, 4_853)}, 22, 0.59, 0.88),
    "web": (24_692, 25_057, {"train": (23_952, 740)}, 300, 0.039, 0.97),
    "phishing": (8_315, 2_740, {"all": (4_898, 6_157)}, 68, 0.44, 0.88),
    "skin": (164_788, 80_269, {"all": (194_198, 50_859)}, 3, 0.98, 0.95),
}


@pytest.mark.compiled_only
@pytest.mark.parametrize("name", KNOWN)
def test_a_set_has_its_published_sizes_and_can_be_trained_on(name, real_data, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(real_data))
    known = known_set(name)
    prepare(request(known, str(tmp_path / "out"), tmp_path / "kept", silent, width=known.width))
    data = PreparedData.open(tmp_path / "out")
    manifest = data.manifest
    rows, test_rows, counts, width, density, accuracy = PUBLISHED[name]
    assert sum(manifest.counts("train", "validation")) == known.rows == rows
    assert sum(manifest.counts("test")) == known.test_rows == test_rows
    if "train" in counts:
        assert manifest.counts("train", "validation") == counts["train"]
    else:
        assert manifest.counts() == counts["all"]
    assert manifest.width == known.width == width
    assert manifest.density == pytest.approx(density, abs=0.01)
    assert manifest.labels == (-1, 1)
    estimator = MultiMergeSVC(C=known.c, gamma=known.gamma, budget=60, epochs=1, random_state=0)
    model = estimator.fit_portions(data.split("train")).model_
    scores, codes = data.split("test").decide(model)
    assert np.mean((scores > 0) == codes) > accuracy
