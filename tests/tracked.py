"""Studies to track, and what MLflow has of them: read from its tables, compared row by row with the study's records."""

import functools
import math
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import sqlalchemy
from running import SPACE

from workflows.front import front
from workflows.records import Point, TrialResult
from workflows.study.confirmation import Member
from workflows.study.ledger import DRIVER_DIED
from workflows.study.settings import Settings
from workflows.study.snapshot import Ended, Snapshot, snapshot
from workflows.study.tuning import looked_at
from workflows.tracking.address import address
from workflows.tracking.runs import NOTE, PARENT, STUDY, TRIAL, child, confirmed, parent, progress
from workflows.tracking.store import Store

quiet = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")
"""MLflow's own tables use what SQLAlchemy wants to remove."""
ARTIFACTS = {"report.html", "pareto.html", "front.csv", "front.parquet", "trials.csv", "trials.parquet"}
SETTINGS = Settings(data="made-up", fingerprint="f00", space="toy", cost="work", seed=3)
ENVIRONMENT = {"version.mmbsgd": "1.0", "machine.host": "here", "git.commit": "c0ffee-dirty", "tracking": "embedded"}
BEGAN = 1_700_000_000.0


def made_up(count, *, study="made-up", seed=0, confirm=2, settings=SETTINGS, identity=None, running=0):
    """A study of so many trials in every state; the first n of a longer one of the same seed are the same."""
    choice, trials = random.Random(seed), []
    for number in range(count):
        x, y, kind = choice.random(), choice.uniform(0.1, 1.0), choice.random()
        costs = {"cpu": y, "wall": 2 * y, "work": 1000 * y}
        counters = {"size": float(number), "steps": 50.0}
        result = TrialResult(number, "complete", x * y, 0.01, costs, counters, node="node-1", seconds=1.5)
        if kind < 0.15:
            reason = DRIVER_DIED if kind < 0.05 else "it ran out of memory"
            result = TrialResult(number, "failed", reason=reason, node="node-2")
        elif kind < 0.3:
            result = replace(result, state="stopped", score=math.nan, reason="it can only end dominated")
        else:
            epochs = tuple(Point(0.5 * epoch, 10.0 * epoch, x * y * epoch / 2) for epoch in (1, 2))
            result = replace(result, epochs=epochs)
        result = replace(result, curve=(Point(0.25, 5.0, 0.1), Point(0.5, 10.0, math.nan)))
        ended = BEGAN + 2.0 * number + choice.random()
        values = (x * y, costs[settings.cost]) if result.state == "complete" else ()
        if values and settings.third != "none":
            values = (*values, counters[settings.third])
        again = number > 2 and choice.random() < 0.2
        trials.append(
            Ended(
                number=number,
                origin=number - 1 if again else number,
                attempt=2 if again else 1,
                parameters={"x": x, "y": y, "engine": "fast"},
                state=result.state,
                values=values,
                result=result,
                began=ended - 1.5,
                ended=ended,
            )
        )
    complete = [trial for trial in trials if trial.state == "complete"]
    best = [complete[position] for position in front([trial.values for trial in complete])]
    members = [
        Member(
            trial.number,
            trial.parameters,
            trial.values,
            tuple(0.01 * value for value in trial.values) if confirm else (),
            confirm,
            trial.values,
            trial.result.counters,
        )
        for trial in best
    ]
    return Snapshot(
        study, identity or f"identity of {study}", settings, SPACE, tuple(trials), running, tuple(members), ENVIRONMENT
    )


def looked_up(home, study="toy", storage=None):
    with looked_at(study, home, storage) as ledger:
        return snapshot(ledger, study)


@functools.cache
def _template():
    """A new database takes MLflow seconds; a copy of one takes none."""
    folder = tempfile.TemporaryDirectory(prefix="mmbsgd-mlflow-")
    opened(Path(folder.name)).close()
    return folder


def with_database(home):
    """The folder, with MLflow's database in it."""
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(_template().name) / "mlflow.db", home / "mlflow.db")
    return home


class Opened(Store):
    """A store whose connections can be closed."""

    def close(self):
        self._client._tracking_client.store.engine.dispose()


def opened(home):
    return Opened(address(None, home))


@dataclass
class Row:
    """A run as MLflow's tables have it."""

    id: str
    name: str
    status: str
    began: int
    ended: int
    artifacts: str
    params: dict = field(default_factory=dict)
    tags: dict = field(default_factory=dict)
    metrics: list = field(default_factory=list)
    """(name, value or None, time, step) of every moment."""


def database_of(home):
    return f"sqlite:///{home}/mlflow.db"


def rows(url, identity):
    """The runs of a study that are not deleted: parents, and children by their trials."""
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.connect() as connection:
            ask = functools.partial(_ask, connection, identity)
            found = {
                each[0]: Row(*each)
                for each in ask("run_uuid, name, status, start_time, end_time, artifact_uri", "runs")
            }
            for run, key, value in ask("run_uuid, key, value", "params"):
                found[run].params[key] = value
            for run, key, value in ask("run_uuid, key, value", "tags"):
                found[run].tags[key] = value
            for run, key, value, when, step, nan in ask("run_uuid, key, value, timestamp, step, is_nan", "metrics"):
                found[run].metrics.append((key, None if nan else value, when, step))
    finally:
        engine.dispose()
    parents = [run for run in found.values() if TRIAL not in run.tags]
    children = {}
    for run in found.values():
        if TRIAL in run.tags:
            children.setdefault(int(run.tags[TRIAL]), []).append(run)
    return parents, children


def _ask(connection, identity, columns, table):
    ours = (
        "SELECT runs.run_uuid FROM runs JOIN tags ON tags.run_uuid = runs.run_uuid "
        "WHERE tags.key = :key AND tags.value = :identity AND runs.lifecycle_stage = 'active'"
    )
    query = sqlalchemy.text(f"SELECT {columns} FROM {table} WHERE run_uuid IN ({ours})")
    return connection.execute(query, {"key": STUDY, "identity": identity}).fetchall()


def assert_level(url, seen, status="FINISHED", *, earlier=()):
    """MLflow has the whole study, and everything once. earlier: snapshots whose confirmations were written before.

    Returns the parent run.
    """
    parents, children = rows(url, seen.identity)
    assert len(parents) == 1
    (above,) = parents
    expected = parent(seen, status=status, note="")
    assert (above.name, above.status, above.params) == (seen.study, status, expected.parameters)
    assert status == "RUNNING" or above.ended == expected.ended
    assert {name: above.tags[name] for name in expected.tags if name != NOTE} == {
        name: value for name, value in expected.tags.items() if name != NOTE
    }
    assert f"{len(seen.complete)} trials complete" in above.tags[NOTE]
    assert Counter(above.metrics) == Counter(map(_row_of, progress(seen, 0)))
    assert {number: len(runs) for number, runs in children.items()} == {trial.number: 1 for trial in seen.trials}
    best = {member.number: member for member in seen.front}
    for trial in seen.trials:
        (run,) = children[trial.number]
        expected = child(trial, seen)
        assert (run.name, run.status, run.began, run.ended) == (
            expected.name,
            expected.status,
            expected.began,
            expected.ended,
        )
        assert run.params == expected.parameters
        tags = {name: value for name, value in run.tags.items() if name not in ("mlflow.runName", "mlflow.user")}
        assert tags == expected.tags | {"pareto": str(trial.number in best).lower(), PARENT: above.id}
        measured = [row for row in run.metrics if not row[0].startswith("confirmed_")]
        assert Counter(measured) == Counter(map(_row_of, expected.metrics))
        _assert_confirmed(run, trial, seen, earlier)
    return above


def _assert_confirmed(run, trial, seen, earlier):
    """As the study says now, after what it said before; a value that has not changed need not be written again."""
    found = [row for row in run.metrics if row[0].startswith("confirmed_")]
    said = [_confirmed(trial, look) for look in (*earlier, seen)]
    assert len(found) == len(set(found))
    assert set(found) <= {row for rows in said for row in rows}
    latest = {name: value for name, value, _, _ in sorted(found, key=lambda row: row[3])}
    assert latest.items() >= {name: value for name, value, _, _ in said[-1]}.items()


def _confirmed(trial, look):
    members = {member.number: member for member in look.front}
    if trial.number not in members:
        return []
    return list(map(_row_of, confirmed(members[trial.number], trial, look.settings.names)))


def _row_of(value):
    return value.name, None if math.isnan(value.value) else value.value, value.time, value.step


def artifact_folder(run):
    return Path(run.artifacts.removeprefix("file://"))


def artifacts(run):
    """Names of the run's files on this machine."""
    folder = artifact_folder(run)
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def assert_published(names):
    assert names >= ARTIFACTS
    assert any(name.startswith("pictures/") and name.endswith(".svg") for name in names)
