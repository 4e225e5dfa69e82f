"""Draws docs/adult.svg from what benchmarks/solver.py measured: time against accuracy, on ADULT."""

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
# Okabe and Ito's colours, which colour-blind readers can tell apart.
OURS, PAPER, OTHERS, EXACT = "#0072B2", "#56B4E9", "#E69F00", "#000000"


def label(axes: Any, text: str, x: float, y: float, *, below: bool = True) -> None:
    axes.annotate(
        text, (x, y), (0, -9 if below else 9), textcoords="offset points", ha="center", va="top" if below else "bottom"
    )


def draw(axes: Any, rows: list[dict[str, Any]], five_passes: dict[str, Any]) -> None:
    fast = [row for row in rows if row.get("engine") == "fast"]
    axes.plot([row["fit_seconds"] for row in fast], [row["accuracy"] for row in fast], "o", color=OURS, markersize=8)
    mergees = ", ".join(str(row["mergees"]) for row in fast)
    label(axes, f"mmbsgd\nM = {mergees}", fast[1]["fit_seconds"], min(row["accuracy"] for row in fast))
    axes.plot(five_passes["fit_seconds"], five_passes["accuracy"], "o", color=OURS, markersize=8)
    label(axes, "mmbsgd\nfive passes", five_passes["fit_seconds"], five_passes["accuracy"], below=False)
    paper = [row for row in rows if row.get("engine") == "paper"]
    axes.plot([row["fit_seconds"] for row in paper], [row["accuracy"] for row in paper], "o", color=PAPER, markersize=8)
    lowest = min(row["accuracy"] for row in paper)
    label(axes, f"mmbsgd at the paper's cost\nM = {mergees}", paper[1]["fit_seconds"], lowest)
    for row in rows:
        if "engine" not in row:
            exact = row["method"] == "SVC"
            axes.plot(row["fit_seconds"], row["accuracy"], "s", color=EXACT if exact else OTHERS, markersize=8)
            name = "exact SVC" if exact else row["method"].replace(" + ", "\n+ ")
            label(axes, name, row["fit_seconds"], row["accuracy"], below=row["method"].startswith("RBF"))


def main() -> None:
    results: dict[str, Any] = json.loads((ROOT / "benchmarks/results/solver.json").read_text())
    rows = [row for row in results["comparison"] if row["set"] == "ADULT"]
    five_passes = next(row for row in results["epochs"] if row["set"] == "ADULT")
    plt.rcParams.update({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "mmbsgd"})
    figure, axes = plt.subplots(figsize=(8.2, 4.3), layout="constrained")
    draw(axes, rows, five_passes)
    axes.set_xscale("log")
    axes.set_ylim(81.6, 85.8)
    axes.set_xlim(0.025, 130)
    axes.set_xlabel("training time on one core, seconds")
    axes.set_ylabel("test accuracy, %")
    axes.set_title("ADULT, 32,561 rows, budget B = 500", loc="left", fontsize=11)
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    (ROOT / "docs").mkdir(exist_ok=True)
    figure.savefig(ROOT / "docs/adult.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
