"""What a study must know of its data: its own space, the facts that a space is relative to, the splits to score on."""

from collections.abc import Iterable
from pathlib import Path

from mmbsgd.portions import scale_gamma
from search_spaces import Space, shipped
from workflows.data import PreparedData
from workflows.data.known import KNOWN, exact_accuracy
from workflows.errors import StudyError
from workflows.study.settings import Settings

DEFAULT = "default"


def default_space(data: str) -> str:
    """A set of the paper has a space of its own."""
    return data if data in KNOWN and data in shipped() and not Path(data).is_file() else DEFAULT


def facts_of(space: Space, name: str, data: PreparedData, settings: Settings) -> dict[str, float]:
    """What the space asks for; a pass over the data only if it must be."""
    trained_on = data.split(*settings.rounds_of_splits[0][0])
    facts: dict[str, float] = {"rows": float(trained_on.rows)}
    known = KNOWN.get(Path(name).name)
    if known is not None:
        facts |= {
            "support-vectors": float(known.support_vectors),
            "paper-C": known.c,
            "paper-gamma": known.gamma,
        }
    if "scale" in space.needs():
        facts["scale"] = scale_gamma(trained_on)
    return facts


def reference_of(settings: Settings) -> float | None:
    """The exact SVM's score, where it is known."""
    usual = settings.metric == "accuracy" and not (settings.folds or settings.splits)
    return exact_accuracy(settings.fingerprint) if usual else None


def check_splits(name: str, data: PreparedData, settings: Settings) -> None:
    """Says what is missing before anything is started."""
    known = data.manifest.splits
    if missing := sorted(settings.read - set(known)):
        how = f"--folds {settings.folds}" if settings.folds else "--validation-size"
        raise StudyError(
            f"{name} has no {', '.join(missing)} to score on; it has: {', '.join(known)}. Prepare it with {how}"
            + ("" if settings.folds or "fold-0" not in known else f", or tune with --folds {_folds(known)}")
        )
    if settings.folds and f"fold-{settings.folds}" in known:
        raise StudyError(f"{name} was prepared with {_folds(known)} folds: tune with --folds {_folds(known)}")


def _folds(splits: Iterable[str]) -> int:
    return sum(split.startswith("fold-") for split in splits)
