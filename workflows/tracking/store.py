"""MLflow behind the few verbs that tracking needs. Whatever goes wrong there is `Away`: nothing here depends on it."""

import io
import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import create_engine, inspect

from workflows.errors import TrackingError
from workflows.tracking.address import QUIET, Address
from workflows.tracking.moving import follow
from workflows.tracking.runs import PARENT, STUDY, TRIAL, Run, Value

MOST_METRICS, MOST_TAGS = 800, 100
"""In one call, where MLflow takes 100 parameters, 100 tags and 1000 of everything together."""
PAGE = 1000
AT_ONCE = 8
"""Calls to a server under way at the same time: most of a call is waiting."""


class Away(Exception):
    """MLflow does not answer, or not as it should: what was being written may or may not have arrived."""


@dataclass
class Kept:
    """A run as MLflow has it."""

    id: str
    ended: bool
    """Everything has been written."""
    until: int | None
    """When it ended, in milliseconds since 1970."""
    status: str
    parameters: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]


def load(where: Address) -> Any:
    """MLflow, which reads its settings when it is imported; that takes seconds."""
    where.use()
    import mlflow

    logging.getLogger(mlflow.__name__).setLevel(logging.WARNING)  # that it makes its tables is no news
    return mlflow


@contextmanager
def quietly() -> Iterator[None]:
    """Without what MLflow prints when models are saved: advice for developers, bars, its own good news."""
    os.environ.update(QUIET)
    import mlflow  # sets up its log, which is then turned down

    log = logging.getLogger(mlflow.__name__)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


@contextmanager
def _same_environment() -> Iterator[None]:
    """MLflow tells its children where it is; whatever this process does next shall not take it for the user's wish."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


class Store:
    def __init__(self, where: Address) -> None:
        mlflow = load(where)
        self.address = where
        with self._answering():
            if where.exists or not where.uri.startswith(("sqlite", "http")):
                _look(where)
            self._client = mlflow.MlflowClient(where.uri, where.uri)

    def experiment(self, name: str, *, kind: str = "custom_model_development") -> str:
        """The number of an experiment, made if there is none. kind: which pages MLflow shows for it."""
        artifacts = self.address.artifacts
        place = None if artifacts is None else f"{artifacts}/{name.replace('/', '-')}"
        with self._answering():
            found = self._client.get_experiment_by_name(name)
            if found is None:
                return str(self._client.create_experiment(name, place, {"mlflow.experimentKind": kind}))
        if found.lifecycle_stage != "active":
            raise TrackingError(
                f"the experiment {name!r} was deleted in MLflow at {self.address.shown}: restore it there "
                f"('mlflow experiments restore -x {found.experiment_id}'), or give the study another name"
            )
        if self.address.embedded and place is not None and found.artifact_location != place:
            with self._answering():
                follow(self.address.file, found.experiment_id, found.artifact_location, place)
        return str(found.experiment_id)

    def mark(self, experiment: str, name: str, value: str) -> None:
        """Sets a tag of the experiment."""
        with self._answering():
            self._client.set_experiment_tag(experiment, name, value)

    def runs(self, experiment: str, identity: str) -> tuple[list[Kept], dict[int, list[Kept]]]:
        """The study's parent runs and those of its trials by number, oldest first: there should be one of each."""
        parents: list[Kept] = []
        trials: dict[int, list[Kept]] = {}
        for run in self._runs(experiment, identity):
            (trials.setdefault(int(run.tags[TRIAL]), []) if TRIAL in run.tags else parents).append(run)
        return parents, trials

    def create(self, experiment: str, run: Run, parent: str | None = None) -> Kept:
        tags = run.tags if parent is None else run.tags | {PARENT: parent}
        with self._answering():
            made = self._client.create_run(experiment, run.began, tags, run.name)
        return Kept(made.info.run_id, False, None, "RUNNING", {}, tags, {})

    def log(
        self,
        run: str,
        metrics: Sequence[Value] = (),
        parameters: Mapping[str, str] = MappingProxyType({}),
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Writing the same twice changes nothing. Tags come last: they may say that the rest is there."""
        from mlflow.entities import Metric, Param, RunTag

        values = [Metric(each.name, each.value, each.time, each.step) for each in metrics]
        given = [Param(name, value) for name, value in parameters.items()]
        marks = [RunTag(name, value) for name, value in tags.items()]
        while values or given or marks:
            batch, values = values[:MOST_METRICS], values[MOST_METRICS:]
            few, given = given[:MOST_TAGS], given[MOST_TAGS:]
            some = [] if values or given else marks[:MOST_TAGS]
            marks = marks[len(some) :]
            with self._answering():
                self._client.log_batch(run, batch, few, some)

    def end(self, run: str, status: str, when: int | None) -> None:
        with self._answering():
            if status == "RUNNING":
                self._client.update_run(run, status)
            else:
                self._client.set_terminated(run, status, when)

    def delete(self, run: str) -> None:
        with self._answering():
            self._client.delete_run(run)

    def files(self, run: str) -> set[str]:
        """Names of the run's artifacts."""
        with self._answering():
            return {file.path for file in self._client.list_artifacts(run)}

    def upload(self, run: str, folder: Path, below: str | None = None) -> None:
        """The folder's content; files of the same names are replaced."""
        with self._answering():
            self._client.log_artifacts(run, str(folder), below)

    def log_model(self, experiment: str, run: str, name: str, arguments: dict[str, Any], register: str | None) -> str:
        """Logs a model to the run, which goes on as it was; the version that it is registered as, if it shall be."""
        import mlflow

        with self._answering(), quietly(), _same_environment():
            from mlflow.models import Model

            mlflow.set_tracking_uri(self.address.uri)
            mlflow.set_registry_uri(self.address.uri)
            mlflow.set_experiment(experiment_id=experiment)
            made = Model.log(None, mlflow.pyfunc, name=name, run_id=run, registered_model_name=register, **arguments)
        return str(made.registered_model_version or "")

    def describe_version(self, name: str, version: str, text: str, alias: str | None) -> None:
        """What the page of a registered model's version says, and the alias that leads to it."""
        with self._answering():
            self._client.update_model_version(name, version, text)
            if alias:
                self._client.set_registered_model_alias(name, alias, version)

    def each(self, work: Callable[[Any], None], items: Iterable[Any]) -> None:
        """Several at once where waiting is most of the work; stops at the first that fails."""
        if not self.address.server:
            for item in items:
                work(item)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = iter(items)
            under_way = [pool.submit(work, item) for item in islice(waiting, AT_ONCE)]
            try:
                while under_way:
                    under_way.pop(0).result()
                    under_way += [pool.submit(work, item) for item in islice(waiting, 1)]
            finally:
                for future in under_way:
                    future.cancel()

    def _runs(self, experiment: str, identity: str) -> Iterator[Kept]:
        page: str | None = None
        search = partial(
            self._client.search_runs,
            [experiment],
            f"tags.`{STUDY}` = '{identity}'",
            max_results=PAGE,
            order_by=["attributes.start_time ASC"],
        )
        while True:
            with self._answering():
                found = search(page_token=page)
            for run in found:
                info = run.info
                ended = info.status != "RUNNING"
                data = run.data
                yield Kept(info.run_id, ended, info.end_time, info.status, data.params, dict(data.tags), data.metrics)
            page = found.token
            if not page:
                return

    @contextmanager
    def _answering(self) -> Iterator[None]:
        from mlflow.exceptions import MlflowException
        from requests.exceptions import RequestException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
            raise Away(self.address.clean(_said(error))) from None


def _look(where: Address) -> None:
    """Fails at once if there is no such database: MLflow itself would try for minutes."""
    try:
        engine = create_engine(where.uri)
    except ImportError:
        raise TrackingError(f"--tracking-uri {where.shown} needs a driver: pip install 'mmbsgd[postgres]'") from None
    try:
        inspect(engine).get_table_names()
    finally:
        engine.dispose()


def _said(error: Exception) -> str:
    """The heart of what MLflow says: its messages hold addresses, advice and whole pages."""
    text = " ".join(str(error).split())
    for opening, plain in (
        ("NewConnectionError", "connection refused"),
        ("Connection refused", "connection refused"),
        ("RemoteDisconnected", "the connection broke off"),
        ("ConnectTimeout", "no connection within the time limit"),
        ("Read timed out", "no answer within the time limit"),
        ("NameResolutionError", "no such host"),
        ("error code 401", "it wants a name and a password: --tracking-uri http://USER:PASSWORD@HOST:PORT"),
        ("error code 403", "it refuses access: the name and password, or the server's --allowed-hosts"),
        ("database is locked", "its database is locked by another program"),
    ):
        if opening in text:
            return plain
    return text[:300]
