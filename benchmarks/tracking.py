"""Does MLflow slow a study down, and can a person look at a large one? Side by side with tracking switched off.

    python benchmarks/tracking.py [--only PART,PART] [--quick] [--folder DIR] [--out DIR]

    studies  the same trials on ADULT without tracking, with the embedded database, and with a server that is well, that
             answers after 5 s, or that is down; in turns
    large    a study of 2,000 trials: how long MLflow takes to get it, how large the report is, how soon it opens

Two cores for everything, MLflow's server included. Needs Chromium for the last figure.
"""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from frame import Figure, Part, Raw, add_quick, asked, options, progress, run, show
from orchestration import mmbsgd

from workflows.study.snapshot import snapshot
from workflows.study.tuning import looked_at
from workflows.tracking.address import address
from workflows.tracking.lock import held, patience
from workflows.tracking.server import Server, free_port

DELAY = 5.0
STATES = ("shown", "ready", "complete")
KINDS = ("off", "embedded", "server", "slow", "down")
SAID = {
    "embedded": "the embedded database",
    "server": "a server on the same two cores",
    "slow": f"a server that answers after {DELAY:.0f} s",
    "down": "a server that is down",
}


@dataclass(frozen=True)
class Plan:
    repeats: int = 3
    trials: int = 200
    large: int = 2_000


QUICK = Plan(1, 20, 100)


@contextmanager
def slow(port: int, delay: float) -> Iterator[int]:
    """A port that gives the answers of another one after a delay."""

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            with suppress(OSError):  # one of the two has gone
                self._carry()

        def _carry(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            time.sleep(delay)
            behind = HTTPConnection("127.0.0.1", port, timeout=60)
            behind.request(self.command, self.path, content, dict(self.headers) | {"Host": f"127.0.0.1:{port}"})
            answer = behind.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            behind.close()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        yield relay.server_port
        relay.shutdown()


@contextmanager
def mlflow(kind: str, folder: Path) -> Iterator[list[str]]:
    """The options that lead to an MLflow of this kind."""
    if kind in ("off", "embedded"):
        yield ["--no-tracking"] if kind == "off" else []
        return
    if kind == "down":
        yield ["--tracking-uri", f"http://127.0.0.1:{free_port(0, 0)}"]
        return
    with ExitStack() as stack:
        folder.mkdir(parents=True)
        port = free_port(0, 0)
        server = stack.enter_context(Server(address(None, folder), port, folder / "log"))
        server.wait()
        if kind == "slow":
            port = stack.enter_context(slow(port, DELAY))
        yield ["--tracking-uri", f"http://127.0.0.1:{port}"]


def studies_part(folder: Path, plan: Plan) -> Raw:
    home = folder / "home"
    mmbsgd("data", "get", "adult", "--home", home)
    mmbsgd("tune", "adult", "--home", home, "--study", "warm-up", "--trials", 4, "--confirm", 0, "--no-tracking")
    runs: dict[str, list[Raw]] = {kind: [] for kind in KINDS}
    for repeat in range(plan.repeats):
        for kind in KINDS[repeat % len(KINDS) :] + KINDS[: repeat % len(KINDS)]:
            own = folder / f"{kind}-{repeat}"
            own.mkdir()
            os.symlink(home / "data", own / "data")
            with mlflow(kind, own / "server") as options:
                words = ("--home", own, "--trials", plan.trials, "--sampler", "random", "--no-early-stop", "--json")
                done = mmbsgd("tune", "adult", *words, *options)
            with held(own, "adult", wait=patience(120.0)):  # what goes on in the background has ended
                runs[kind].append(_times(own, done))
            progress(f"{kind}: study {runs[kind][-1]['study']:.1f} s, command {runs[kind][-1]['wall']:.1f} s")
    return {"trials": plan.trials, "runs": runs}


def _times(home: Path, done: Raw) -> Raw:
    printed = json.loads(done["output"])
    tracked = printed["tracking"] or {"waited": 0.0, "done": 0, "total": 0}
    with looked_at("adult", home, None) as ledger:
        seen = snapshot(ledger, "adult")
    search = max(trial.ended for trial in seen.trials) - min(trial.began for trial in seen.trials)
    return {"wall": done["wall"], "study": done["wall"] - tracked["waited"], "search": search, "tracked": tracked}


def studies_figures(part: Raw) -> Iterator[Figure]:
    off = {key: median(run[key] for run in part["runs"]["off"]) for key in ("study", "search", "wall")}
    text = f"ADULT, {part['trials']} trials, {len(part['runs']['off'])} repeats"
    for kind, name in SAID.items():
        runs = part["runs"][kind]
        slower = {key: 100 * (median(run[key] for run in runs) / off[key] - 1) for key in off}
        worst = 100 * (max(run["study"] for run in runs) / off["study"] - 1)
        yield Figure(
            f"{text}, {name}: the study is slower by (worst repeat {worst:.1f}%)", slower["study"], 10, unit="%"
        )
        yield Figure(f"{text}, {name}: the search alone is slower by", slower["search"], unit="%")
        yield Figure(
            f"{text}, {name}: wait for MLflow at the end", median(r["tracked"]["waited"] for r in runs), unit=" s"
        )
        had = min(run["tracked"]["done"] / max(run["tracked"]["total"], 1) for run in runs)
        yield Figure(f"{text}, {name}: trials in MLflow when the command ends (least)", 100 * had, unit="%")


def large_part(folder: Path, plan: Plan) -> Raw:
    home = folder / "home"
    words = ("--rows", 2000, "--trials", plan.large, "--sampler", "nsga2", "--home", home)
    mmbsgd("tune", "demo", *words, "--workers", 0, "--confirm", 2, "--no-tracking", "--json")
    synced = mmbsgd("sync", "demo", "--home", home)["wall"]
    again = mmbsgd("sync", "demo", "--home", home)["wall"]
    report = next(home.rglob("report.html"))
    opened = [_opened(report) for _ in range(5)]
    return {"trials": plan.large, "sync": synced, "again": again, "bytes": report.stat().st_size, "opened": opened}


def _opened(report: Path) -> Raw:
    """Seconds from a new tab until the page is seen, until its trade-off can be pointed at, until all is drawn."""
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=quiet)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(report.as_uri(), wait_until="commit")
        page.wait_for_selector("html[data-complete]", state="attached")
        seconds = {state: float(page.get_attribute("html", f"data-{state}")) / 1e3 for state in STATES}
        browser.close()
    return seconds


def large_figures(part: Raw) -> Iterator[Figure]:
    text = f"a study of {part['trials']:,} trials"
    yield Figure(f"{text}: `mmbsgd sync` into an empty database", part["sync"], unit=" s")
    yield Figure(f"{text}: the same again, with nothing to do", part["again"], unit=" s")
    yield Figure(f"{text}: size of the report", part["bytes"] / 1e6, 10, unit=" MB")
    times = f"median of {len(part['opened'])}"
    opened = {state: median(one[state] for one in part["opened"]) for state in STATES}
    yield Figure(f"{text}: the report and its trade-off are seen after ({times})", opened["shown"], 3, unit=" s")
    yield Figure(f"{text}: the trade-off can be pointed at after ({times})", opened["ready"], 3, unit=" s")
    yield Figure(f"{text}: all its pictures are drawn after ({times})", opened["complete"], unit=" s")


PARTS = {"studies": Part(studies_part, studies_figures), "large": Part(large_part, large_figures)}


def main() -> None:
    parser = options("MLflow beside no MLflow, on two cores.", PARTS)
    add_quick(parser)
    arguments, names = asked(parser, PARTS)
    file = arguments.out / f"tracking{'-quick' if arguments.quick else ''}.json"
    results = run(PARTS, names, QUICK if arguments.quick else Plan(), file, arguments.folder)
    show({name: results[name] for name in names})


if __name__ == "__main__":
    main()
