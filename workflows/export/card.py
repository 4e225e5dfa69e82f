"""The model card: what the model is, where it comes from, how good it is, and how each file is used. Markdown."""

import math
import time
from collections.abc import Mapping, Sequence

from mmbsgd import BudgetedModel
from mmbsgd._version import __version__
from workflows.export.check import NOISE, TOLERANCE, Checked, summary
from workflows.export.choice import Choice, described
from workflows.export.once import Tested
from workflows.export.refit import Refitted
from workflows.study.snapshot import Snapshot
from workflows.wording import confirmed, heading, objective, parameter, span

FRONT, PICTURE = "The front that it was chosen from", "front.svg"
TIMES = (
    "Times are those of the machine that exported it, on one thread: C as compiled with -O2, LIBSVM in its Python "
    "package, MLflow through `load_model`, the others from Python. C and LIBSVM take rows one by one: one row is a "
    "thousandth of 1,000."
)


def card(
    seen: Snapshot,
    choice: Choice,
    refitted: Refitted,
    tested: Tested | None,
    model: BudgetedModel,
    checked: Mapping[str, Checked],
    files: Mapping[str, Sequence[str]],
) -> str:
    settings, member = seen.settings, choice.member
    return (
        "\n\n".join(
            [
                f"# {seen.study}: trial {member.number}",
                f"A Gaussian-kernel SVM with {len(model.coefficients):,} support vectors on {model.width:,} features, "
                f"trained by multi-merge budgeted SGD. It tells {model.classes[1]!r} (positive scores) from "
                f"{model.classes[0]!r}, and takes raw rows: {_scaling(model)}.",
                f"**Chosen as** {choice.why}.",
                *_neighbours(choice, seen),
                f"![{FRONT}]({PICTURE})",
                "## How good it is",
                _table(
                    ("figure", "value"),
                    [
                        (f"{heading(settings.metric)} on the test rows", _tested(tested)),
                        *_found(choice, seen),
                        (
                            f"{heading(settings.metric)} of {_refits(refitted)}, {_decided(refitted)}",
                            _scores(refitted),
                        ),
                    ],
                ),
                *_warnings(tested),
                "## How it was made",
                _table(
                    ("", ""),
                    [
                        ("data", f"`{settings.data}`"),
                        ("fingerprint of the prepared data", f"`{settings.fingerprint}`"),
                        ("trained on", f"{' + '.join(refitted.trained_on)}, {refitted.rows:,} rows"),
                        *((f"`{name}`", parameter(value)) for name, value in member.parameters.items()),
                        ("training", f"{span(refitted.training.seconds)}, {refitted.training.steps:,} steps"),
                        ("kept", _kept(refitted)),
                        ("made by", f"mmbsgd {__version__}, {time.strftime('%Y-%m-%d')}"),
                        *(
                            (name, f"`{seen.environment[name]}`")
                            for name in ("git.commit",)
                            if seen.environment.get(name)
                        ),
                    ],
                ),
                "## Files",
                _table(
                    ("format", "files", "size", "one row", "1,000 rows", "largest difference"),
                    [
                        (name, ", ".join(f"`{file}`" for file in files[name]), *figures)
                        for name, *figures in summary(checked)
                    ],
                ),
                _agreement(checked),
                TIMES,
            ]
        )
        + "\n"
    )


def _agreement(checked: Mapping[str, Checked]) -> str:
    allowed = max(one.allowed for one in checked.values())
    return (
        "All of them were asked about the same rows before they were handed out: decision values agree with the "
        f"native model's within {allowed:.1e}, which is {TOLERANCE:g} of the largest (at least 1) and {NOISE:g} of the "
        "sum of all coefficients' sizes, what its float32 arithmetic may lose; labels agree on every row that is "
        "farther from the boundary than that. Values must be finite numbers."
    )


def _scaling(model: BudgetedModel) -> str:
    if model.scaling is None:
        return "nothing is scaled"
    return {"unit": "they are scaled to unit length inside"}.get(
        model.scaling.method, f"the {model.scaling.method} scaling of the training rows is inside"
    )


def _neighbours(choice: Choice, seen: Snapshot) -> list[str]:
    said = [
        f"- {what}: {described(other, seen.settings)}"
        for what, other in (("cheaper", choice.cheaper), ("better", choice.better))
        if other is not None
    ]
    return ["Its neighbours on the front offer:\n\n" + "\n".join(said)] if said else []


def _found(choice: Choice, seen: Snapshot) -> list[tuple[str, str]]:
    member, runs = choice.member, choice.member.runs
    how = f"{confirmed([member])}, {runs} runs" if runs else "one run of the search, not confirmed"
    latency = (member.counters or {}).get("latency")
    return [
        (
            f"{heading(name)} in the study ({how})",
            objective(name, value, member.deviations[place] if runs else math.nan),
        )
        for place, (name, value) in enumerate(zip(seen.settings.names, member.values, strict=True))
    ] + ([("time per row of a batch in the study (one run)", f"{1e6 * latency:.3g} µs")] if latency else [])


def _tested(tested: Tested | None) -> str:
    return "there are no test rows" if tested is None else f"{tested.score:.2%}"


def _warnings(tested: Tested | None) -> list[str]:
    if tested is None:
        return [
            "**The data has no test rows**: how good the model is on new data was not measured. Validation rows chose "
            "it, so that their figures are a little too good."
        ]
    if tested.others:
        looks = ", ".join(f"trial {look.trial} on {look.date}" for look in tested.others)
        return [
            f"**The test rows were used for other models too** ({looks}): if their scores had a say in the choice, the "
            "figure is a little too good."
        ]
    return []


def _decided(refitted: Refitted) -> str:
    rows = " + ".join(refitted.decided_on)
    return f"on {rows}" + (" (rows they were trained on)" if refitted.decided_on == refitted.trained_on else "")


def _refits(refitted: Refitted) -> str:
    return "the refit" if len(refitted.scores) == 1 else f"{len(refitted.scores)} refits"


def _scores(refitted: Refitted) -> str:
    low, high = min(refitted.scores), max(refitted.scores)
    return f"{low:.2%}" + (f" to {high:.2%}, kept: {refitted.scores[refitted.position]:.2%}" if high > low else "")


def _kept(refitted: Refitted) -> str:
    if len(refitted.scores) == 1:
        return "the only one"
    what = "the median of" if refitted.keep == "median" else "the best on validation rows of"
    return f"{what} {len(refitted.scores)} seeds"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)
