"""Puts what benchmarks/solver.py measured into README.md, between its marks."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARKS = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)


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


def figures(listed: list[dict[str, Any]]) -> list[str]:
    lines = ["| figure | measured | goal | |", "|---|---:|---:|---|"]
    for figure in listed:
        sign, unit = "≥" if figure["at_least"] else "≤", figure["unit"]
        verdict = "met" if figure["verdict"] == "met" else f"**{figure['verdict']}**"
        lines.append(
            f"| {figure['name']} | {figure['value']:.4g}{unit} | {sign} {figure['goal']:g}{unit} | {verdict} |"
        )
    return lines


def main() -> None:
    results: dict[str, Any] = json.loads((ROOT / "benchmarks/results/solver.json").read_text())
    text = "\n".join(
        [
            "Budget 500, one epoch, calibrated bias, one core, all in one run of `benchmarks/solver.py`. Fast engine:",
            "time is the best of five repeats, accuracy the mean of five seeds. Every other method ran once, so that",
            '"× faster" flatters the fast engine by the luck of its best repeat. SVC on SKIN gets equal rows as one',
            "weighted row: the same problem, sooner solved.",
            "",
            *comparison(results["comparison"], results["exp_limit"]["best"]),
            "",
            *figures(results["figures"]),
            "",
        ]
    )
    readme = ROOT / "README.md"
    readme.write_text(MARKS.sub(lambda found: found[1] + text + found[2], readme.read_text()))


if __name__ == "__main__":
    main()
