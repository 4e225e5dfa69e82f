"""Where a study is kept: a journal file in the home folder, or a database that Optuna knows."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages.journal import JournalStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from workflows.errors import StudyError
from workflows.study.journal import Journal
from workflows.urls import shown, without_secrets

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SCHEMES = ("sqlite:///FILE", "postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE")
_DRIVERS = ("sqlite", "sqlite+pysqlite", "postgresql+psycopg", "postgresql+psycopg2")
_LOST_SOON = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""What makes PostgreSQL's client notice within a minute, not hours, that a link is cut."""
_OPENING_TRIES = 3


@dataclass(frozen=True)
class Opened:
    storage: BaseStorage
    where: str
    """For people; without a password."""
    flush: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None

    def find(self, study: str) -> int:
        """The number of a study that must be there."""
        try:
            return self.storage.get_study_id_from_name(study)
        except KeyError:
            known = sorted(other.study_name for other in self.storage.get_all_studies())
            raise _unknown(study, self.where, known) from None


def check_name(study: str) -> None:
    if not _NAME.fullmatch(study):
        raise StudyError(f"--study {study!r}: a name is letters, digits, dots, dashes and underscores")


def open_storage(url: str | None, home: Path, study: str, *, write: bool = True) -> Opened:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    check_name(study)
    if url is None:
        return _journal(journal_file(home, study), study, write)
    parsed = _parsed(url)
    if not write and _missing_file(parsed):
        raise StudyError(f"no study {study!r} in {shown_url(url)}: there is no such file")
    storage = _database(parsed)
    return Opened(storage, shown_url(url), close=storage.engine.dispose)


def journal_file(home: Path, study: str) -> Path:
    return home / "studies" / f"{study}.journal"


def journals(home: Path) -> list[str]:
    """Names of the studies in the home folder, the latest last."""
    files = sorted((home / "studies").glob("*.journal"), key=lambda file: file.stat().st_mtime)
    return [file.stem for file in files]


def shown_url(url: str) -> str:
    """The URL without its password."""
    return shown(_parsed(url))


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StudyError("--storage is not a URL such as " + " or ".join(SCHEMES)) from None
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in _DRIVERS:
        raise StudyError(f"--storage {parsed.drivername}://… is not supported: use {' or '.join(SCHEMES)}")
    if "@" in (parsed.host or ""):
        raise StudyError("--storage has more than one @: write an @ in the password as %40")
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise StudyError(f"--storage {shown(parsed)} would keep the study in memory only: use {SCHEMES[0]}")
    return parsed


def _missing_file(parsed: URL) -> bool:
    file = str(parsed.database)
    return parsed.get_backend_name() == "sqlite" and not file.startswith("file:") and not Path(file).is_file()


def _database(parsed: URL) -> RDBStorage:
    where, arguments = shown(parsed), {}
    if parsed.get_backend_name() == "postgresql":
        arguments = {name: value for name, value in _LOST_SOON.items() if name not in parsed.query}
    # Optuna takes braces for a template.
    url = parsed.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    for tries in range(_OPENING_TRIES):
        try:
            return RDBStorage(url, engine_kwargs={"pool_pre_ping": True, "connect_args": arguments})
        except ImportError:
            raise StudyError(f"--storage {where} needs a driver: pip install 'mmbsgd[postgres]'") from None
        except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            said = " ".join(str(error.__cause__ or error).split()).partition(" (Background on")[0]
            if tries + 1 < _OPENING_TRIES and ("already exists" in said or "duplicate key" in said):
                continue  # another process makes the tables at this very moment
            raise StudyError(f"cannot open --storage {where}: {without_secrets(said, parsed)}") from None
        except RuntimeError as error:
            raise StudyError(f"cannot use --storage {where}: {' '.join(str(error).split())}") from None
    raise AssertionError("the last try returns or raises")


def _journal(path: Path, study: str, write: bool) -> Opened:
    if not write and not path.is_file():
        raise _unknown(study, str(path.parent.parent), sorted(file.stem for file in path.parent.glob("*.journal")))
    journal = Journal(path, write=write)
    try:
        storage = JournalStorage(journal)
    except Exception as error:  # whatever Optuna trips over when lines are missing or changed
        journal.close()
        raise StudyError(
            f"the study's journal {path} is damaged: {type(error).__name__} {error}; move it away to start anew"
        ) from None
    return Opened(storage, str(path), flush=journal.flush, close=journal.close)


def _unknown(study: str, where: str, known: list[str]) -> StudyError:
    there = f"there are: {', '.join(known)}" if known else "there is none yet: make one with 'mmbsgd tune'"
    return StudyError(f"no study {study!r} in {where}; {there}")
