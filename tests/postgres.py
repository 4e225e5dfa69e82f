"""A PostgreSQL server of the tests' own, on 127.0.0.1, that can go away and come back."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest

USER, PASSWORD = "tester", "SECRET-{pass}word"
"""With letters that must be encoded in a URL."""
ENCODED = "SECRET-%7Bpass%7Dword"


def program(name):
    found = shutil.which(name)
    if found:
        return found
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not installed:
        pytest.skip(f"no {name}: apt-get install postgresql")
    return str(installed[-1])


class Server:
    def __init__(self, folder):
        self._data, self._log = folder / "data", folder / "log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._names = count()
        secret = folder / "password"
        secret.write_text(PASSWORD)
        self._run("initdb", "-D", self._data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}", "-E", "UTF8")
        with open(self._data / "postgresql.conf", "a") as settings:
            # What a process wrote survives the server's end without fsync, and no test cuts the power.
            settings.write(f"port={self.port}\nlisten_addresses='127.0.0.1'\nunix_socket_directories=''\nfsync=off\n")
        self.start()

    def start(self):
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", self._log)

    def stop(self):
        """At once, as in a crash."""
        self._run("pg_ctl", "stop", "-m", "immediate", "-w", "-D", self._data)

    def restart(self):
        self.stop()
        self.start()

    def url(self, database, password=ENCODED):
        return f"postgresql+psycopg://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_url(self):
        """Of a database that nobody has used."""
        name = f"studies{next(self._names)}"
        with self.connection("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def connection(self, database):
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname=database, autocommit=True
        )

    def _run(self, name, *arguments):
        with tempfile.TemporaryFile() as output:  # a pipe would stay open in the server
            done = subprocess.run(
                [program(name), *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=120,
                cwd="/",
                **_somebody_else(),
            )
            output.seek(0)
            assert done.returncode == 0, output.read().decode()


def _somebody_else():
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    known = {user.pw_name: user for user in pwd.getpwall()}
    user = known.get("postgres") or known["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextmanager
def running_server():
    program("initdb")
    # Not in pytest's folder: it is closed to other users.
    with tempfile.TemporaryDirectory(prefix="mmbsgd-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        other = _somebody_else()
        if other:
            os.chown(folder, other["user"], other["group"])
        server = Server(folder)
        try:
            yield server
        finally:
            server.stop()
