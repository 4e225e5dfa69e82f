"""The parts `storage` and `tracking` of benchmarks/scaling.py: what the driver and MLflow's sender do for a trial."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from frame import ROOT, Figure, Raw, progress
from scaling_study import Plan, best_of, result, study

from workflows.backends.simulated import Simulated
from workflows.study.proposer import Proposer
from workflows.study.tuning import Held
from workflows.tracking.address import address
from workflows.tracking.sender import Sender
from workflows.tracking.server import Server, free_port
from workflows.tracking.store import load


def run_stored(sampler: str, trials: int, storage: str | None, folder: str) -> Raw:
    """Two simulated workers: the clock jumps while they are at work, and real time is the driver's alone."""
    spent: defaultdict[str, float] = defaultdict(float)
    statements: Counter[str] = Counter()
    found: Raw = {}
    times: list[float] = []

    def timed(name: str, what: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return what(*arguments, **named)
            finally:
                spent[name] += time.perf_counter() - began

        return call

    def watch(mine: Held, asked: Proposer) -> None:
        if found:
            found["connections"] = _connections(mine) if storage else 0
            return
        ledger: Any = mine.ledger
        ledger.start, ledger.end = timed("enter", ledger.start), timed("end", ledger.end)
        ledger.flush = timed("flush", ledger.flush)
        asked.propose, asked.told = timed("ask", asked.propose), timed("tell", asked.told)  # type: ignore[method-assign]
        found["connections"] = 0
        times.append(time.perf_counter())

    if storage:
        from sqlalchemy import event
        from sqlalchemy.engine import Engine
        from sqlalchemy.pool import Pool

        for name in ("before_cursor_execute", "begin", "commit", "rollback", "checkout"):
            place: Any = Pool if name == "checkout" else Engine
            event.listen(place, name, lambda *_, name=name, **__: statements.update([name]))
    backend = Simulated(lambda spec: result(spec, 1.0), 2)
    study(
        folder,
        sampler,
        backend,
        trials,
        storage=storage,
        listener=lambda progress, got: times.append(time.perf_counter()),
        watch=watch,
    )
    whole = times[-1] - times[0]
    pieces = {name: 1e3 * seconds / trials for name, seconds in spent.items()}
    per_trial = 1e3 * whole / trials
    return found | {
        "sampler": sampler,
        "trials": trials,
        "pieces": pieces | {"rest": per_trial - sum(pieces.values())},
        "ms": per_trial,
        "rate": 1e3 / per_trial,
        "round_trips": sum(statements.values()) / trials,
        "statements": {name: number / trials for name, number in statements.items()},
    }


def _connections(mine: Held) -> int:
    from sqlalchemy import text

    with mine.ledger._storage.engine.connect() as connection:  # type: ignore[attr-defined]
        asked = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(connection.execute(asked).scalar_one())


@contextmanager
def postgres() -> Iterator[Callable[[], str] | None]:
    """URLs of empty databases on a server that keeps what it is told; None where there is no PostgreSQL."""
    sys.path.insert(0, str(ROOT / "tests"))
    with ExitStack() as stack:
        import pytest
        from postgres import running_server

        try:
            server = stack.enter_context(running_server())
        except pytest.skip.Exception:  # it is not installed
            yield None
            return
        with server.connection("postgres") as connection:
            connection.execute("ALTER SYSTEM SET fsync = on")  # the tests do without
            connection.execute("SELECT pg_reload_conf()")
        yield server.new_url


def storage_part(_: Path, plan: Plan) -> Raw:
    best = partial(best_of, plan.best, run_stored, trials=plan.stored)
    found: Raw = {"journal": best(sampler="nsga2", storage=None), "journal, TPE": best(sampler="tpe", storage=None)}
    with postgres() as new_url:
        if new_url is not None:
            found["PostgreSQL"] = best(sampler="nsga2", storage=new_url)
    for name, raw in found.items():
        pieces = ", ".join(f"{piece} {ms:.2f}" for piece, ms in raw["pieces"].items())
        progress(f"{name}: {raw['ms']:.2f} ms per trial ({pieces})")
    return {"storages": found}


def storage_figures(part: Raw) -> Iterator[Figure]:
    for name, raw in part["storages"].items():
        pieces = ", ".join(f"{piece} {ms:.2f}" for piece, ms in raw["pieces"].items())
        kind = "" if "TPE" in name else ", NSGA-II"
        yield Figure(f"driver, {name}{kind}: per trial ({pieces})", raw["ms"], unit=" ms")
        yield Figure(f"driver, {name}{kind}: at most", raw["rate"], unit=" trials/s")
        if raw["round_trips"]:
            yield Figure(f"driver, {name}: round trips per trial, each as long as the network's", raw["round_trips"])
            yield Figure(f"driver, {name}: connections, whatever the number of workers", raw["connections"])


def run_sender(trials: int, uri: str | None, folder: str) -> Raw:
    home = Path(folder)
    study(folder, "random", Simulated(lambda spec: result(spec, 1.0), 100), trials)
    where = address(uri, home)
    load(where)
    sender = Sender("study", home, None, where)
    began = time.perf_counter()
    seen = sender.look()
    looked = time.perf_counter() - began
    assert seen is not None
    few = min(10, trials // 2)
    sender.bring(replace(seen, trials=seen.trials[:few], front=()), "RUNNING")  # tables, experiment and parent run
    processor, began = time.process_time(), time.perf_counter()
    sender.bring(seen, "RUNNING")
    spent, sent = time.perf_counter() - began, trials - few
    return {
        "trials": trials,
        "ms": 1e3 * spent / sent,
        "cpu_ms": 1e3 * (time.process_time() - processor) / sent,
        "rate": sent / spent,
        "look_ms": 1e3 * looked,
    }


def tracking_part(folder: Path, plan: Plan) -> Raw:
    best = partial(best_of, plan.best, run_sender, trials=plan.tracked)
    found = {"the embedded database": best(uri=None)}
    port = free_port(0, 0)
    with Server(address(None, folder), port, folder / "log") as server:
        server.wait()
        found["a server on the same two cores"] = best(uri=server.url)
    for name, raw in found.items():
        progress(f"MLflow, {name}: {raw['ms']:.1f} ms per trial")
    return {"senders": found}


def tracking_figures(part: Raw) -> Iterator[Figure]:
    for name, raw in part["senders"].items():
        yield Figure(f"MLflow's sender, a process of its own, {name}: per trial", raw["ms"], unit=" ms")
        yield Figure(f"MLflow's sender, {name}: at most", raw["rate"], unit=" trials/s")
