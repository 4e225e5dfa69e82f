"""MLflow servers of the tests' own, and a proxy in front of them that is slow, broken or away when it is told to."""

import base64
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import ProxyHandler, build_opener

from running import eventually
from tracked import database_of, with_database

from workflows.tracking.address import QUIET

HOST = "127.0.0.1"
SECONDS_TO_START = 180
_direct = build_opener(ProxyHandler({}))


def free_port():
    with socket.create_server((HOST, 0)) as free:
        return free.getsockname()[1]


def answers(url):
    """Whether MLflow's server is there."""
    with suppress(OSError), _direct.open(f"{url}/health", timeout=5) as answer:
        return answer.status == 200
    return False


class MlflowServer:
    """As an administrator starts it: for several people, with files that it serves itself."""

    def __init__(self, folder, backend=None):
        self.database = backend or database_of(with_database(folder))
        self.port, self._folder, self._process = free_port(), folder, None
        self.url = f"http://{HOST}:{self.port}"

    def start(self):
        where = ["--host", HOST, "--port", str(self.port), "--artifacts-destination", str(self._folder / "files")]
        with open(self._folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *where, "--workers", "1"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ
                | QUIET
                | {"MLFLOW_BACKEND_STORE_URI": self.database, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                start_new_session=True,
            )
        eventually(lambda: self._process.poll() is not None or answers(self.url), SECONDS_TO_START)
        assert self._process.poll() is None, (self._folder / "server.log").read_text()

    def kill(self):
        """At once, as in a crash, with its children."""
        self._end(signal.SIGKILL)

    def stop(self):
        if self._process is not None:
            self._end(signal.SIGTERM)
            self._end(signal.SIGKILL)

    def _end(self, ending):
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, ending)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)


@contextmanager
def running_mlflow(folder, backend=None):
    server = MlflowServer(folder, backend)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Proxy:
    """Passes requests on to a server, as `fate` says: it is given how many of the same kind there were before and the
    kind ('runs/create', …), and returns what happens to the request:

    "pass"; a number: passed on after so many seconds; "error": answered with 500 and not passed on; "drop": carried
    out, and the connection closed without an answer; "hang": neither carried out nor answered while the proxy is there.
    """

    def __init__(self, target, fate=lambda before, kind: "pass", credentials=None):
        """credentials: 'user:password' that every request must bring; target None: nothing is behind it."""
        self.fate, self.kinds, self.refused = fate, [], 0
        self._target = target and target.removeprefix("http://")
        self._lock, self._over = threading.Lock(), threading.Event()
        self._wanted = credentials and f"Basic {base64.b64encode(credentials.encode()).decode()}"
        self.port, self._server = free_port(), None
        self.url = f"http://{HOST}:{self.port}"

    def up(self):
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self):
                with suppress(OSError):  # a client that has gone
                    super().handle_one_request()
                    return
                self.close_connection = True

            def do_GET(self):
                proxy._handle(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self._over.clear()
        self._server = ThreadingHTTPServer((HOST, self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self):
        """Connections are refused."""
        if self._server is not None:
            self._over.set()
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        self.down()

    def count(self, kind):
        with self._lock:
            return self.kinds.count(kind)

    def _handle(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        kind = _kind(request.path)
        with self._lock:
            before = self.kinds.count(kind)
            self.kinds.append(kind)
        if self._wanted and request.headers.get("Authorization") != self._wanted:
            self.refused += 1
            return _answer(request, 401, [("WWW-Authenticate", "Basic")], b"who are you?")
        fate = self.fate(before, kind)
        if fate == "hang":
            self._over.wait()
        if fate in ("hang", "refuse"):
            return _cut(request)
        if fate == "error":
            return _answer(request, 500, [], b"broken")
        if isinstance(fate, int | float) and self._over.wait(fate):
            return _cut(request)
        status, headers, content = self._passed_on(request, body)
        return _cut(request) if fate == "drop" else _answer(request, status, headers, content)

    def _passed_on(self, request, body):
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
            connection.request(request.command, request.path, body, headers | {"Connection": "close"})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        except OSError:
            return 502, [], b"nobody there"
        finally:
            connection.close()


def _kind(path):
    """What a request asks for, without numbers: 'runs/create', 'artifacts', …"""
    path = path.partition("?")[0]
    for opening in ("/api/2.0/mlflow-artifacts/", "/api/2.0/mlflow/", "/api/3.0/mlflow/"):
        if path.startswith(opening):
            return "artifacts" if "artifacts" in opening else path.removeprefix(opening)
    return path


def _answer(request, status, headers, content):
    request.send_response_only(status)
    for name, value in headers:
        if name.lower() not in ("transfer-encoding", "connection", "content-length"):
            request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content)
    request.close_connection = True


def _cut(request):
    with suppress(OSError):
        request.connection.shutdown(socket.SHUT_RDWR)
    request.close_connection = True


def links(running):
    """What `mmbsgd ui` says when the dashboard is there: addresses by their names."""
    found = {}
    for line in running.process.stdout:
        name, _, link = line.strip().partition(":")
        if link.strip().startswith("http"):
            found[name] = link.strip()
        if name == "Its report":
            return found
    raise AssertionError(running.end())


@contextmanager
def silent_port():
    """A port that takes connections and never says anything."""
    with socket.create_server((HOST, 0), backlog=100) as silent:
        yield silent.getsockname()[1]
