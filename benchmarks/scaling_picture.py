"""Draws docs/scaling.svg from what benchmarks/scaling.py measured, and puts its tables into a page.

python benchmarks/scaling_picture.py [--page FILE]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from frame import ROOT, Raw
from matplotlib import pyplot as plt
from readme import figures, put

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#D55E00", "#E69F00", "#009E73", "#0072B2")
QUIET = "#777777"


def rows_of(parts: Raw, length: float, backend: str = "actors") -> list[Raw]:
    rows = [row for row in parts["simulated"]["rows"] if row["backend"] == backend and row["length"] == length]
    return sorted(rows, key=lambda row: int(row["workers"]))


def draw(parts: Raw, file: Path) -> None:
    plt.rcParams.update({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "mmbsgd"})
    figure, axes = plt.subplots(figsize=(8.2, 4.9), layout="constrained")
    lengths = parts["simulated"]["lengths"]
    for length, colour in zip(lengths, COLOURS, strict=False):
        rows = rows_of(parts, length)
        workers = [row["workers"] for row in rows]
        axes.plot(workers, [count / length for count in workers], color=colour, linewidth=0.8, linestyle=(0, (1, 2)))
        axes.plot(workers, [row["rate"] for row in rows], "o-", color=colour, markersize=6, linewidth=1.8)
        text = f"{'trials of ' if length == lengths[0] else ''}{length:g} s"
        place = (rows[0]["workers"], rows[0]["rate"])
        axes.annotate(text, place, (8, -5), textcoords="offset points", va="top", color=colour)
    measured = [row for row in parts["real"]["rows"] if row["kind"] == "sleep"]
    for row in measured:
        axes.plot([1, 2], [row["rates"]["1"], row["rates"]["2"]], "s", color="black", markersize=4, zorder=5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.7, 14_000)
    axes.set_ylim(0.004, 3_000)
    axes.set_xticks([1, 10, 100, 1_000, 10_000], ["1", "10", "100", "1,000", "10,000"])
    axes.set_yticks([0.01, 0.1, 1, 10, 100, 1_000], ["0.01", "0.1", "1", "10", "100", "1,000"])
    axes.minorticks_off()
    levels(axes, parts)
    axes.set_xlabel("workers")
    axes.set_ylabel("trials per second")
    axes.set_title("What one driver manages: simulated workers, real driver", loc="left", fontsize=11)
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    legend(axes)
    file.parent.mkdir(exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def levels(axes: Any, parts: Raw) -> None:
    """What the driver and MLflow's sender manage: lines, named on the right, one name above the other."""
    lines = {"driver, journal": saturation(parts)}
    if "PostgreSQL" in parts.get("storage", {}).get("storages", {}):
        lines["driver, PostgreSQL"] = parts["storage"]["storages"]["PostgreSQL"]["rate"]
    senders = parts["tracking"]["senders"]
    lines |= {f"MLflow, {name.split()[1]}": raw["rate"] for name, raw in senders.items()}
    below = 2.0
    for name, rate in sorted(lines.items(), key=lambda line: -line[1]):
        axes.axhline(rate, color=QUIET, linewidth=1.0, linestyle=(0, (5, 3)), zorder=0)
        height = axes.transAxes.inverted().transform(axes.transData.transform((1.0, rate)))[1]
        below = min(height, below - 0.05)
        axes.annotate(
            f"{name}: {rate:,.0f}/s",
            (1.0, height),
            (1.02, below),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            color="#444444",
            fontsize=9,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": QUIET, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
        )


def saturation(parts: Raw) -> float:
    """The highest rate of any simulated study on actors."""
    return float(max(row["rate"] for row in parts["simulated"]["rows"] if row["backend"] == "actors"))


def legend(axes: Any) -> None:
    handles = [
        plt.Line2D([], [], color=QUIET, marker="o", markersize=6, linewidth=1.8, label="simulated actors"),
        plt.Line2D([], [], color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)), label="every worker always busy"),
        plt.Line2D([], [], color="black", marker="s", markersize=4, linewidth=0, label="measured: real Ray actors"),
    ]
    axes.legend(handles=handles, loc="lower right", frameon=False, fontsize=9)


# The page.


def grid(parts: Raw) -> list[str]:
    lengths = parts["simulated"]["lengths"]
    lines = [
        "| workers | " + " | ".join(f"trials of {length:g} s" for length in lengths) + " |",
        "|---:|" + "---:|" * len(lengths),
    ]
    for workers in parts["simulated"]["workers"]:
        cells = []
        for length in lengths:
            row = next(row for row in rows_of(parts, length) if row["workers"] == workers)
            cells.append(f"{row['rate']:,.3g}/s · {row['efficiency']:.1%}")
        lines.append(f"| {workers:,} | {' | '.join(cells)} |")
    return lines


def pairs(parts: Raw) -> list[str]:
    lines = [
        "| trials | 1 worker | 2 workers | efficiency | 2 workers busy |",
        "|---|---:|---:|---:|---:|",
    ]
    names = {"sleep": "asleep", "burn": "of CPU", "train": "of training"}
    for row in parts["real"]["rows"]:
        rates, busy = row["rates"], row["busy"]
        lines.append(
            f"| {row['seconds']:g} s {names[row['kind']]} | {rates['1']:.3g}/s | {rates['2']:.3g}/s "
            f"| {row['efficiency']:.3f} | {busy['2']:.1%} |"
        )
    return lines


def block(parts: Raw) -> list[str]:
    """What was not measured is left out."""
    lines = ["Two cores for everything, measured by `benchmarks/scaling.py`."]
    if "real" in parts:
        lines += [
            "",
            "Measured: real Ray actors, the real driver with its journal, sampler `auto`. Efficiency is the rate of "
            "two workers over twice the rate of one; busy is the share of their time that workers spend in trials. "
            "Two workers, the driver and Ray share the two cores.",
            "",
            *pairs(parts),
        ]
    if "simulated" in parts:
        lines += [
            "",
            "Simulated: trials per second, and the share of their time that workers are busy once all have a trial. "
            "Driver, proposer, ledger, journal and the Ray backend's bookkeeping are real and take the time they "
            "take; actors only pretend. The sampler is `auto`, from 1,000 workers on NSGA-II, which `auto` changes to "
            "there. Ray's share of every call and of every look at the nodes, measured with few "
            "of them, is added. Networks, failing nodes and Ray's own processes are not simulated.",
            "",
            *grid(parts),
        ]
    listed = [figure for name, part in parts.items() if name != "real" for figure in part["figures"]]
    goals = [figure for figure in parts.get("real", {}).get("figures", []) if figure["goal"] is not None]
    folded = ["<details><summary>All that was measured, and simulated with it</summary>", "", *figures(listed), ""]
    return [*lines, "", *figures(goals), "", *folded, "</details>"]


def fill(page: Path, parts: Raw) -> None:
    """Replaces what stands between the page's marks."""
    before = page.read_text()
    after = put(before, "scaling figures", block(parts))
    if "<!-- scaling figures -->" not in before:
        raise SystemExit(f"{page} has no <!-- scaling figures --> … <!-- end of scaling figures -->")
    page.write_text(after)


def main() -> None:
    parser = argparse.ArgumentParser(description="The picture and the tables of what scaling.py has measured.")
    parser.add_argument("--page", type=Path, help="a Markdown file with the marks <!-- scaling figures --> to fill")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "scaling.json")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "scaling.svg")
    arguments = parser.parse_args()
    parts = json.loads(arguments.results.read_text())
    draw(parts, arguments.picture)
    if arguments.page:
        fill(arguments.page, parts)


if __name__ == "__main__":
    main()
