"""Puts what the other scripts measured into README.md, between its marks."""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def comparison(rows: list[dict[str, Any]], limit: float) -> list[str]:
    lines = [
        "| set | method | fit | × faster than SVC | test accuracy | maintenance | evaluations/s | of exp limit |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        if row.get("engine") == "paper" and row["mergees"] in (3, 10):
            continue
        cells = [
            row["set"],
            row["method"],
            f"{row['fit_seconds']:.3g} s",
            f"{row['times_faster']:,.0f}",
            f"{row['accuracy']:.2f}%",
        ]
        if "engine" in row:
            speed = row["kernel_evaluations_per_second"]
            cells += [f"{row['maintenance_share']:.0%}", f"{speed / 1e6:,.0f}·10⁶", f"{speed / limit:.3f}"]
        else:
            cells += ["–", "–", "–"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def readers(parts: dict[str, Any]) -> list[str]:
    lines = [
        "| file | method | median | best | CPU | MB/s | peak memory |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for part in parts.values():
        for name, row in part.get("methods", {}).items():
            cells = [f"{part['file']['kind']}, {part['file']['bytes'] / 1e6:,.0f} MB", name]
            cells += [f"{row[key]:.2f} s" for key in ("median", "best", "cpu")]
            cells += [f"{row['mb_per_second']:,.0f}", f"{row['peak_mb']:,.0f} MB"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def figures(listed: list[dict[str, Any]]) -> list[str]:
    """A figure without a goal is there for information."""
    lines = ["| figure | measured | goal | |", "|---|---:|---:|---|"]
    for figure in listed:
        sign, unit = "≥" if figure["at_least"] else "≤", figure["unit"]
        goal = "" if figure["goal"] is None else f"{sign} {figure['goal']:g}{unit}"
        verdict = f"**{figure['verdict']}**" if figure["verdict"] == "not met" else figure["verdict"]
        lines.append(f"| {figure['name']} | {figure['value']:.4g}{unit} | {goal} | {verdict} |")
    return lines


def solver_block(results: dict[str, Any]) -> list[str]:
    return [
        "Budget 500, one epoch, calibrated bias, one core, all in one run of `benchmarks/solver.py`. Fast engine: "
        "time is the best of five repeats, accuracy the mean of five seeds. Every other method ran once, so "
        '"× faster" flatters the fast engine by the luck of its best repeat. SVC on SKIN gets equal rows as one '
        "weighted row: the same problem, sooner solved.",
        "",
        *comparison(results["comparison"], results["exp_limit"]["best"]),
        "",
        *figures(results["figures"]),
    ]


def data_block(parts: dict[str, Any]) -> list[str]:
    return [
        "Dense rows of 54 features on two cores, generated and measured by `benchmarks/data.py`. Every run is a "
        "process of its own, and its clock starts after the imports. Methods took turns; files came from the system's "
        "cache. `prepare` reads, splits, shuffles and writes; the others end with their arrays in memory. CPU counts "
        "the time of all threads.",
        "",
        *readers(parts),
        "",
        *figures([figure for part in parts.values() for figure in part["figures"]]),
    ]


def samplers(rows: list[dict[str, Any]], seeds: int) -> list[str]:
    """One line per set, cost and axis; random search, which the others are compared with, comes first."""
    names = list(dict.fromkeys(row["sampler"] for row in rows))
    lines = [f"| set | cost | axis | {' | '.join(names)} |", "|---|---|---|" + "---:|" * len(names)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        wins = "" if row["sampler"] == "random" else f" ({row['beats_random']}/{seeds})"
        cell = f"{row['mean']:.4f} ± {row['deviation']:.4f}{wins}"
        groups.setdefault((row["set"], row["cost"], row["axis"]), []).append(cell)
    return lines + [f"| {' | '.join((*group, *cells))} |" for group, cells in groups.items()]


def study_block(parts: dict[str, Any]) -> list[str]:
    """The prose of parts that were not measured is left out."""
    said = {
        "throughput": "Throughput: a stand-in for a trial on two Ray actors, the journal on disk; medians of repeats "
        "that took turns with Ray Tune (OptunaSearch, NSGA-II, reused actors). Clocks start with the second result.",
        "scale": "Scale: simulated workers, trials of gamma-distributed length; the driver's own time is real.",
        "stopping": "Early stopping: once searching by itself, once with the parameter sets that the search without "
        "early stopping had tried.",
        "quality": "Hypervolume as a share of the box between the larger class's score, score 1 and the largest cost: "
        "mean ± deviation over seeds, and in how many of them it beats random search with the same seed.",
    }
    lines = [
        "Two cores, measured by `benchmarks/orchestration.py`. "
        + " ".join(text for name, text in said.items() if name in parts and name != "quality"),
        "",
        *figures([figure for part in parts.values() for figure in part["figures"]]),
    ]
    if "quality" in parts:
        lines += ["", said["quality"], "", *samplers(parts["quality"]["quality"], parts["quality"]["seeds"])]
    return lines


def tracking_block(parts: dict[str, Any]) -> list[str]:
    return [
        "Two cores for everything, MLflow included, measured by `benchmarks/tracking.py`. Studies of the same trials "
        "took turns; medians. A study ends when its front is confirmed; the command then waits for MLflow if that will "
        "soon be done, and leaves the rest to a process in the background.",
        "",
        *figures([figure for part in parts.values() for figure in part["figures"]]),
    ]


def predict_block(parts: dict[str, Any]) -> list[str]:
    return [
        "One core, one run of `benchmarks/predict.py`: the same support vectors in all three, methods took turns, "
        "medians. onnxruntime takes sparse rows only when they are made dense, which is not timed; the better of its "
        "figures for batches and for all rows at once counts.",
        "",
        *figures([figure for part in parts.values() for figure in part["figures"]]),
    ]


def percent(part: float) -> str:
    """Two digits, and never an exponent."""
    return f"{100 * part:.0f}%" if part >= 0.1 else f"{100 * part:.2g}%"


def polishing_block(results: dict[str, Any]) -> list[str]:
    lines = [
        "One core, one run of `benchmarks/polishing.py`, the paper's C and γ, means over five seeds ± deviation; M = 3 "
        "and one epoch but for what a row says. Nystroem has as many landmarks as we have vectors, and 20 epochs of "
        "averaged SGD.",
        "",
        "| set | B | method | test accuracy % | fit s | objective within |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for name, part in results["parts"].items():
        for row in part["rows"]:
            within = percent(row["gap"]) if row["passes"] else ""
            accuracy = f"{row['accuracy']:.2f} ± {row['deviation']:.2f}"
            lines.append(
                f"| {name} | {row['budget']} | {row['method']} | {accuracy} | {row['fit_seconds']:.3f} | {within} |"
            )
        if svc := part["svc"]:
            vectors = f"{svc['support_vectors']:,}"
            lines.append(f"| {name} | {vectors} | exact SVM | {svc['accuracy']:.2f} | {svc['fit_seconds']:.1f} | |")
    return [*lines, "", *figures([figure for part in results["parts"].values() for figure in part["figures"]])]


def put(readme: str, name: str, lines: list[str]) -> str:
    """Replaces what stands between the marks of that name; prose is wrapped."""
    lines = [line if line.startswith("|") else textwrap.fill(line, 120) for line in lines]
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    return marks.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], readme)


def main() -> None:
    file, results = ROOT / "README.md", ROOT / "benchmarks" / "results"
    readme = file.read_text()
    for name, source, block in (
        ("figures", "solver", solver_block),
        ("data figures", "data", data_block),
        ("study figures", "orchestration", study_block),
        ("tracking figures", "tracking", tracking_block),
        ("predict figures", "predict", predict_block),
        ("polishing figures", "polishing", polishing_block),
    ):
        if (results / f"{source}.json").exists():
            readme = put(readme, name, block(json.loads((results / f"{source}.json").read_text())))
    file.write_text(readme)


if __name__ == "__main__":
    main()
