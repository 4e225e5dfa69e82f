"""The page: what was measured beside what the paper reports, with pictures. It is made of the results' files alone."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from workflows.report.panels import Picture
from workflows.report.printed import draw
from workflows.reproduction.claims import verdicts
from workflows.reproduction.experiments import EXPERIMENTS, Experiment
from workflows.reproduction.results import Results, read
from workflows.reproduction.sizes import QUICK

PAGE, FOLDER = "reproduction.md", "reproduction"
"""In the folder that the user names: the page, and beside it pictures and results."""
KINDS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
_HEAD = """# The paper, done again

*Multi-Merge Budget Maintenance for Stochastic Gradient Descent SVM Training* (Qaadan and Glasmachers, 2018) on the
paper's data sets: each of its tables and figures again, beside its own numbers where it prints them. Every experiment
is a study of `mmbsgd`; this page is written by `mmbsgd reproduce all` from the results beside it.

- **The paper engine** costs what the paper analyses: fresh kernel values, and a golden section search for every
  candidate. It is what the paper's claims are about. **The fast engine** is what this project uses: it merges by the
  same rule, but keeps distances and looks candidates up in a table, so that merging costs little whatever M is.
  Rounding makes single runs of the two differ; means over seeds agree.
- Times are CPU seconds of one core. The paper's come from another machine and an older code: compare ratios, not
  seconds.
- The paper's code has no bias, and where the last steps of an epoch, which are as large as C, leave the threshold is
  chance. Accuracies here have a bias that is calibrated on the training rows after the epoch, unless a table says
  otherwise.
- ± is the standard deviation over seeds."""


def write_page(out: Path, *, fresh: Collection[str] | None = None) -> Path | None:
    """Writes the page and its pictures from the results that are there; None: there are none.

    fresh: the experiments whose pictures are drawn; those of others only where they are missing. None: all.
    """
    folder = out / FOLDER
    found = {name: results for name in EXPERIMENTS if (results := read(folder, name)) is not None}
    if not found:
        return None
    parts = [_HEAD, *_quick(found), _where(found), *_missing(found)]
    if table := verdicts({name: results.rows for name, results in found.items()}):
        parts += ["## What becomes of the paper's claims", _reading(), table]
    for name, results in found.items():
        parts += _section(EXPERIMENTS[name], results, folder, again=fresh is None or name in fresh)
    page = out / PAGE
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _reading() -> str:
    return (
        "Verdicts follow from the rules below the table, which are fixed in `workflows/reproduction/claims.py`: a "
        "claim of several parts holds where all of them do, and in part where some do. Standard errors came into rules "
        "1, 3 and 4 after a first full run had been seen."
    )


def _section(experiment: Experiment, results: Results, folder: Path, *, again: bool) -> list[str]:
    parts = [f"## {experiment.title}", f"{experiment.about} `mmbsgd reproduce {experiment.name}`"]
    for part in experiment.section(results.rows):
        parts.append(_drawn(part, folder, again) if isinstance(part, Picture) else part)
    return parts


def _drawn(picture: Picture, folder: Path, again: bool) -> str:
    for kind in KINDS:
        target = folder / f"{picture.name}.{kind}"
        if again or not target.exists():
            draw(picture, target, kind=kind)
    return f"![{picture.title}]({FOLDER}/{picture.name}.svg)\n\n*{picture.reading}*"


def _missing(found: dict[str, Results]) -> list[str]:
    missing = [f"`mmbsgd reproduce {name}`" for name in EXPERIMENTS if name not in found]
    return [f"Not run yet: {', '.join(missing)}."] if missing else []


def _quick(found: dict[str, Results]) -> list[str]:
    if all(results.facts["size"] != QUICK.name for results in found.values()):
        return []
    return [
        f"**This is a quick look** with at most {QUICK.rows:,} training rows of each set, few settings and "
        f"{QUICK.seeds} seeds: it shows that everything works. Headings name what the paper has; figures and verdicts "
        "of a full run differ."
    ]


def _where(found: dict[str, Results]) -> str:
    """Machine and versions, which may differ from one experiment to the next."""
    by_facts: dict[str, list[str]] = {}
    for name, results in found.items():
        facts = results.facts
        said = (
            f"{facts['size']} size, {facts['day']}, {facts['processor']}, {facts['cores']} cores, Python "
            f"{facts['python']}, NumPy {facts['numpy']}, Numba {facts['numba']}, scikit-learn {facts['scikit-learn']}"
        )
        by_facts.setdefault(said, []).append(name)
    if len(by_facts) == 1:
        return f"Measured: {next(iter(by_facts))}."
    return "\n".join(["Measured:", "", *(f"- {', '.join(names)}: {said}" for said, names in by_facts.items())])
