"""Where studies are kept: clear words for what cannot be opened, no password in them, and changes that happen once."""

import random

import pytest
from optuna.storages import RDBStorage
from running import SETTINGS, SPACE, assert_whole, loaded, toy
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from workflows.errors import StudyError
from workflows.study.ledger import ENTERED_TWICE
from workflows.study.storages import journal_file, open_storage, shown_url
from workflows.study.tuning import Watcher, held, looked_at
from workflows.urls import without_secrets


@pytest.mark.parametrize("study", ["", "a/b", "..", "-x", "ä", "a b", ".hidden"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path, study):
    with pytest.raises(StudyError, match="a name is letters, digits"):
        open_storage(None, tmp_path, study)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "not a URL such as sqlite:///FILE or postgresql"),
        ("postgresql://me:SECRET@host:port/db", "not a URL such as"),
        ("mysql://me:SECRET@host/db", "mysql://… is not supported: use sqlite:///FILE"),
        ("postgresql+asyncpg://me:SECRET@host/db", "postgresql+asyncpg://… is not supported"),
        ("redis://:SECRET@host", "redis://… is not supported"),
        ("postgresql://me:x@SECRET@host/db", "write an @ in the password as %40"),
        ("sqlite://", "in memory only"),
        ("sqlite:///:memory:", "in memory only"),
        ("sqlite:///nowhere/file.db", "cannot open --storage sqlite:///nowhere/file.db: unable to open database file"),
    ],
)
def test_a_storage_that_cannot_be_used_is_one_line(tmp_path, monkeypatch, url, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError) as failed:
        open_storage(url, tmp_path, "toy")
    assert message in str(failed.value)
    assert "SECRET" not in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:SECRET@host:1/db",
        "postgresql+psycopg://me:SEC%40RET@host:1/db",
        "postgresql+psycopg://me@host:1/db?password=SECRET&sslmode=require",
        "postgresql+psycopg2://me@host:1/db?sslpassword=SECRET",
    ],
)
def test_a_url_is_shown_without_its_password(url):
    shown = shown_url(url)
    assert "SEC" not in shown
    assert "host:1/db" in shown
    assert ("sslmode=require" in url) == ("sslmode=require" in shown)


def test_a_file_that_is_not_a_database_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years " * 1000)
    with pytest.raises(StudyError, match=r"thesis\.tex: .*not a database"):
        open_storage(f"sqlite:///{tmp_path}/thesis.tex", tmp_path, "toy")
    assert (tmp_path / "thesis.tex").read_text() == "years " * 1000


def test_looking_makes_nothing(tmp_path):
    for url in (None, f"sqlite:///{tmp_path}/typo.db"):
        with pytest.raises(StudyError, match="no study 'toy' in"), looked_at("toy", tmp_path, url):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("database", [True, False])
def test_an_unknown_study_names_the_known_ones(tmp_path, database):
    url = f"sqlite:///{tmp_path}/studies.db" if database else None
    for study in ("second", "first"):
        toy(tmp_path, url, trials=1, study=study)
    message = "no study 'third' in .*; there are: first, second"
    with pytest.raises(StudyError, match=message), looked_at("third", tmp_path, url):
        pass


def test_braces_in_a_file_name_are_letters(tmp_path):
    toy(tmp_path, f"sqlite:///{tmp_path}/a{{b}}.db", trials=2)
    assert (tmp_path / "a{b}.db").is_file()


def test_studies_in_one_database_do_not_meet(tmp_path):
    url = f"sqlite:///{tmp_path}/studies.db"
    toy(tmp_path, url, trials=4, study="one", events={2: lambda: toy(tmp_path, url, trials=3, study="two")})
    assert assert_whole(url, "one", 4) == assert_whole(url, "two", 3) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"op_code":4', '"op_code":99', 1),
        lambda text: text.replace('"op_code":6', '"op_code"6', 1),
        lambda text: "\n" + text,
        lambda text: "5\n" + text,
        lambda text: '{"op_code":4}\n' + text,
        lambda text: "\0" * 4096 + text,
    ],
)
def test_a_damaged_journal_is_refused_and_left_alone(tmp_path, damage):
    toy(tmp_path, trials=3)
    path = journal_file(tmp_path, "toy")
    damaged = damage(path.read_text())
    path.write_text(damaged)
    with pytest.raises(StudyError, match=r"toy\.journal is damaged"):
        toy(tmp_path)
    with pytest.raises(StudyError, match=r"toy\.journal is damaged"), looked_at("toy", tmp_path, None):
        pass
    assert path.read_text() == damaged
    path.unlink()
    toy(tmp_path, trials=3)  # nothing holds it any more


@pytest.fixture
def commits(tmp_path, monkeypatch):
    """A study in a database; `commits(fate)` makes commits fail from when it is open: before, after or never."""
    url = f"sqlite:///{tmp_path}/studies.db"
    with held("toy", tmp_path, url, SETTINGS, SPACE, Watcher()):
        pass
    original, opening = Session.commit, open_storage

    def start(fate):
        def commit(session):
            moment = fate()
            if moment == "before":
                raise OperationalError("commit", {}, Exception("the link was cut"))
            original(session)
            if moment == "after":
                raise OperationalError("commit", {}, Exception("the link was cut"))

        def opened(*arguments, **options):
            storage = opening(*arguments, **options)
            monkeypatch.setattr(Session, "commit", commit)
            return storage

        monkeypatch.setattr("workflows.study.tuning.open_storage", opened)
        monkeypatch.setattr("workflows.study.tuning._study_id", lambda storage, study, settings: 1)
        monkeypatch.setattr(random, "random", lambda: 0.0)  # Optuna's pause before it tries again
        monkeypatch.setattr("workflows.study.ledger.time.sleep", lambda seconds: None)
        return url

    return start


@pytest.mark.parametrize("seed", range(3))
def test_no_change_is_lost_or_made_twice_when_answers_of_the_database_are(tmp_path, commits, monkeypatch, seed):
    """Every fourth commit or so fails: some before they reach the database, some after it has carried them out."""
    generator, moments = random.Random(seed), []

    def fate():
        moments.append(generator.choices(["never", "before", "after"], [6, 1, 1])[0])
        return moments[-1]

    url = commits(fate)
    found = toy(tmp_path, url, trials=15)
    monkeypatch.undo()
    assert {"before", "after"} <= set(moments)
    assert found.progress.complete == 15
    assert found.progress.failed == found.progress.retries == 0
    assert set(assert_whole(url, "toy", 15)) <= {ENTERED_TWICE}
    trials, _ = loaded(url, "toy")
    assert all(tuple(trials[number].values) == values for number, values in found.progress.front)


@pytest.mark.parametrize("lost", [1, 4, 5, 6, 12])
def test_a_trial_that_was_entered_several_times_has_one_end(tmp_path, commits, monkeypatch, lost):
    """Optuna tries five times to enter a trial, and the ledger again after that."""
    answers, entering = iter(["after"] * lost), []
    original = RDBStorage.create_new_trial

    def create_new_trial(*arguments):
        entering.append(True)
        try:
            return original(*arguments)
        finally:
            entering.pop()

    monkeypatch.setattr(RDBStorage, "create_new_trial", create_new_trial)
    url = commits(lambda: next(answers, "never") if entering else "never")
    found = toy(tmp_path, url, trials=5)
    monkeypatch.undo()
    assert next(answers, None) is None
    assert found.progress.complete == 5
    reasons = assert_whole(url, "toy", 5)
    assert set(reasons) == ({ENTERED_TWICE} if reasons else set())
    trials, _ = loaded(url, "toy")
    assert all(tuple(trials[number].values) == values for number, values in found.progress.front)


def test_no_form_of_a_password_is_left_in_a_message():
    url = make_url("postgresql+psycopg://me:SEC%40RE+T@host/db?sslpassword=OTHER")
    said = "cannot reach me:SEC%40RE%2BT@host with SEC@RE+T, or OTHER"
    assert without_secrets(said, url) == "cannot reach me:***@host with ***, or ***"
