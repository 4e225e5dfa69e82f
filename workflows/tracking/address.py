"""Where MLflow is: the database in the home folder, another one, or a server."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from workflows.errors import TrackingError
from workflows.urls import shown, without_secrets

EMBEDDED = "embedded"
SCHEMES = ("http://HOST:PORT", "sqlite:///FILE", "postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE")
_SERVERS = ("http", "https")
_DATABASES = ("sqlite", "postgresql")
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a request whose answer was lost must not make a second run
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
"""What MLflow's client must be told before it is imported."""


@dataclass(frozen=True)
class Address:
    uri: str
    """As MLflow takes it; that of a database may hold a password, that of a server does not."""
    shown: str
    """For people."""
    username: str = ""
    password: str = ""
    artifacts: str | None = None
    """Where new experiments keep their files; None: the server knows."""

    @property
    def server(self) -> bool:
        return self.uri.startswith(_SERVERS)

    @property
    def embedded(self) -> bool:
        """Whether it is the database of the home folder."""
        return self.shown == EMBEDDED

    @property
    def file(self) -> str:
        """That of a SQLite database; empty for others."""
        url = make_url(self.uri)
        return str(url.database) if url.get_backend_name() == "sqlite" else ""

    @property
    def exists(self) -> bool:
        """Whether there is a database for certain; of those on other machines nothing is known."""
        return bool(self.file) and Path(self.file).is_file()

    def use(self) -> None:
        """Tells MLflow, which reads this when it is imported or asked."""
        os.environ.update(QUIET)
        if self.username:
            os.environ["MLFLOW_TRACKING_USERNAME"] = self.username
            os.environ["MLFLOW_TRACKING_PASSWORD"] = self.password

    def clean(self, text: str) -> str:
        """What somebody else said, on one line and without passwords."""
        url = make_url(self.uri)
        if self.password:
            text = without_secrets(text, url.set(password=self.password))
        return " ".join(without_secrets(text, url).split()).partition(" (Background on")[0]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def address(uri: str | None, home: Path) -> Address:
    """None or 'embedded': a database in the home folder."""
    artifacts = str(home.absolute() / "artifacts")
    if uri is None or uri == EMBEDDED:
        file = str(home.absolute() / "mlflow.db")
        return Address(URL.create("sqlite", database=file).render_as_string(), EMBEDDED, artifacts=artifacts)
    parsed = _parsed(uri)
    if parsed.drivername in _SERVERS:
        bare = URL.create(parsed.drivername, host=parsed.host, port=parsed.port, database=parsed.database)
        plain, said = bare.render_as_string().rstrip("/"), shown(parsed).rstrip("/")
        return Address(plain, said, parsed.username or "", str(parsed.password or ""))
    return Address(parsed.render_as_string(hide_password=False), shown(parsed), artifacts=artifacts)


def _parsed(uri: str) -> URL:
    try:
        parsed = make_url(uri)
    except (ArgumentError, ValueError):
        raise TrackingError(f"--tracking-uri is not a URL such as {_examples()}") from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername in _SERVERS:
        if not parsed.host:
            raise TrackingError(f"--tracking-uri {shown(parsed)} names no host; write {SCHEMES[0]}")
        if parsed.query:
            raise TrackingError(f"--tracking-uri has a question mark: write {SCHEMES[0]} and nothing after it")
    elif parsed.drivername.partition("+")[0] not in _DATABASES:
        raise TrackingError(f"--tracking-uri {parsed.drivername}:… is not supported: use {_examples()}")
    elif parsed.database in (None, "", ":memory:"):
        raise TrackingError(f"--tracking-uri {shown(parsed)} names no database; use {_examples()}")
    if "@" in (parsed.host or ""):
        raise TrackingError("--tracking-uri has more than one @: write an @ in the password as %40")
    return parsed


def _examples() -> str:
    return f"{', '.join(SCHEMES[:-1])} or {SCHEMES[-1]}"
