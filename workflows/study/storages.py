"""Where a study is kept: a journal file in the home folder, or a database that Optuna knows."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages.journal import JournalStorage
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from workflows.errors import StudyError
from workflows.study.journal import Journal

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SCHEMES = ("sqlite:///FILE", "postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE")


@dataclass(frozen=True)
class Opened:
    storage: BaseStorage
    where: str
    """For people; without a password."""
    alone: bool
    """Whether nobody else can write while it is open."""
    flush: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None


def open_storage(url: str | None, home: Path, study: str, *, write: bool = True) -> Opened:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if not _NAME.fullmatch(study):
        raise StudyError(f"--study {study!r}: a name is letters, digits, dots, dashes and underscores")
    if url is None:
        return _journal(journal_file(home, study), study, write)
    shown = shown_url(url)
    try:
        storage = RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
    except ImportError:
        raise StudyError(f"--storage {shown} needs a driver: pip install 'mmbsgd[postgres]'") from None
    except SQLAlchemyError as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise StudyError(f"cannot open --storage {shown}: {_without_password(reason, url)}") from None
    except RuntimeError as error:
        raise StudyError(f"cannot use --storage {shown}: {' '.join(str(error).split())}") from None
    return Opened(storage, shown, alone=False, close=storage.engine.dispose)


def journal_file(home: Path, study: str) -> Path:
    return home / "studies" / f"{study}.journal"


def shown_url(url: str) -> str:
    """The URL without its password."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StudyError("--storage is not a URL such as " + " or ".join(SCHEMES)) from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise StudyError(f"--storage {parsed.get_backend_name()}://… is not supported: use {' or '.join(SCHEMES)}")
    return parsed.render_as_string(hide_password=True)


def _journal(path: Path, study: str, write: bool) -> Opened:
    if not write and not path.is_file():
        known = sorted(file.stem for file in path.parent.glob("*.journal"))
        there = f"there are: {', '.join(known)}" if known else "there is none yet: make one with 'mmbsgd tune'"
        raise StudyError(f"no study {study!r} in {path.parent.parent}; {there}")
    journal = Journal(path, write=write)
    return Opened(JournalStorage(journal), str(path), alone=True, flush=journal.flush, close=journal.close)


def _without_password(text: str, url: str) -> str:
    password = make_url(url).password
    return text.replace(str(password), "***") if password else text
