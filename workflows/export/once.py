"""The test rows are looked at once per study: what has chosen a model cannot judge it any more.

That they were used, for which model and with what result is kept with the study itself, so that whoever opens it next
knows. The very same model may be exported again: its result is known, or, if the process died that looked, still owed.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from workflows.errors import StudyError
from workflows.records import Keep
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
    seeds: int
    keep: Keep
    when: float
    """Seconds since 1970."""
    score: float | None = None
    """None: the process that looked was ended before it could say."""

    @property
    def date(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.when))

    @property
    def options(self) -> str:
        """How to ask for the same model again."""
        return f"--trial {self.trial} --seeds {self.seeds} --keep {self.keep}"


@dataclass(frozen=True)
class Tested:
    score: float
    others: tuple[Look, ...]
    """Looks at other models: who chooses among several scores makes the test rows part of the choice."""


class HeldOutRows:
    """Those of a study, for one request."""

    def __init__(self, study: str, home: Path, storage: str | None, new: Look, *, again: bool) -> None:
        """new: the look that is wanted; its model may not be known yet. again: whatever was looked at before."""
        self._study, self._home, self._storage, self._new, self._again = study, home, storage, new, again

    def check(self) -> None:
        """Fails before any work is done, if the study is busy or another model had its turn."""
        with self._held() as ledger:
            self._refuse([look for look in looks_of(ledger) if look.options != self._new.options], looks_of(ledger))

    def look_once(self, model: str, score: Callable[[], float]) -> Tested:
        """The model's score on the test rows, which `score` computes; refused if another model had its turn."""
        with self._held() as ledger:
            looks = looks_of(ledger)
            others = [look for look in looks if look.model != model]
            known = next((look for look in looks if look.model == model), None)
            if known is not None and known.score is not None:
                return Tested(known.score, tuple(others))
            if known is None:
                self._refuse(others, looks)
            new = replace(self._new, model=model)
            _keep(ledger, [*others, new])  # before the look: a process that dies in it has looked
            found = score()
            _keep(ledger, [*others, replace(new, score=found)])
            return Tested(found, tuple(others))

    def _refuse(self, others: Sequence[Look], looks: Sequence[Look]) -> None:
        if not others or len(others) < len(looks) or self._again:
            return
        last = others[-1]
        said = "" if last.score is None else f" ({last.score:.2%})"
        raise StudyError(
            f"the test rows of {self._study!r} were used on {last.date} for trial {last.trial}{said}: another look "
            f"would make them part of the choice. Export that one ({last.options}), or say --again: the model card "
            "will tell"
        )

    @contextmanager
    def _held(self) -> Iterator[Ledger]:
        with looked_at(self._study, self._home, self._storage) as ledger:
            settings, space = settings_of(ledger.notes(), self._study)
        with held(self._study, self._home, self._storage, settings, space, Watcher()) as mine:
            yield mine.ledger


def looks_of(ledger: Ledger) -> list[Look]:
    return [Look(**look) for look in ledger.notes().get(KEY, [])]


def _keep(ledger: Ledger, looks: list[Look]) -> None:
    ledger.note(KEY, [asdict(look) for look in looks])
    ledger.flush()
