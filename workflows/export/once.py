"""The test rows are looked at once per study: what has chosen a model cannot judge it any more.

That they were used, for which model and with what result is kept with the study itself, so that whoever opens it next
knows. The very same model may be exported again: its result is known, or, if the process died that looked, still owed.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from workflows.errors import StudyError
from workflows.study.ledger import Ledger
from workflows.study.settings import settings_of
from workflows.study.tuning import Watcher, held, looked_at

KEY = "tested"


@dataclass(frozen=True)
class Look:
    """One use of the test rows."""

    trial: int
    model: str
    """Its fingerprint."""
    when: float
    """Seconds since 1970."""
    score: float | None = None
    """None: the process that looked was ended before it could say."""

    @property
    def date(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.when))


@dataclass(frozen=True)
class Tested:
    score: float
    earlier: tuple[Look, ...]
    """Looks at other models before this one: each makes the score a bit less honest."""


def look_once(
    study: str,
    home: Path,
    storage: str | None,
    *,
    trial: int,
    model: str,
    score: Callable[[], float],
    again: bool,
) -> Tested:
    """The model's score on the test rows, which `score` computes; refused if another model had its turn."""
    with looked_at(study, home, storage) as ledger:
        settings, space = settings_of(ledger.notes(), study)
    with held(study, home, storage, settings, space, Watcher()) as mine:
        looks = looks_of(mine.ledger)
        place = next((place for place, look in enumerate(looks) if look.model == model), len(looks))
        known, before = looks[place:][:1], tuple(looks[:place])
        for look in known:
            if look.score is not None:
                return Tested(look.score, before)
        if looks and not known and not again:
            last = looks[-1]
            said = "" if last.score is None else f" ({last.score:.2%})"
            raise StudyError(
                f"the test rows of {study!r} were used on {last.date} for trial {last.trial}{said}: another look would "
                f"make them part of the choice. Export that one (--trial {last.trial}), or say --again: the model card "
                "will tell"
            )
        new = Look(trial, model, time.time())
        later = looks[place + 1 :]
        _keep(mine.ledger, [*before, new, *later])  # before the look: a process that dies in it has looked
        found = score()
        _keep(mine.ledger, [*before, replace(new, score=found), *later])
        return Tested(found, before)


def looks_of(ledger: Ledger) -> list[Look]:
    return [Look(**look) for look in ledger.notes().get(KEY, [])]


def _keep(ledger: Ledger, looks: list[Look]) -> None:
    ledger.note(KEY, [asdict(look) for look in looks])
    ledger.flush()
