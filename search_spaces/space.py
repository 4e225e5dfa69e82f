"""A search space: which values of which parameters a study may try, read from TOML."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from optuna.distributions import BaseDistribution

from mmbsgd.errors import MmbsgdError
from search_spaces.parameters import Parameter, read
from search_spaces.values import TAKES, Facts, shown

REQUIRED = ("C", "gamma", "budget", "mergees")


class SpaceError(MmbsgdError):
    """A search space that cannot be used."""


@dataclass(frozen=True)
class Space:
    """Parameters by name, always in the same order, and what the space is for."""

    name: str
    about: str
    parameters: dict[str, Parameter] = field(default_factory=dict)

    def needs(self) -> set[str]:
        """The facts of the data that values are relative to."""
        return {parameter.of for parameter in self.parameters.values() if parameter.of is not None}

    def distributions(self, facts: Facts) -> dict[str, BaseDistribution]:
        """What Optuna samples from."""
        if missing := self.needs() - set(facts):
            raise SpaceError(
                f"search space {self.name} is relative to {', '.join(sorted(missing))}, unknown for this data: "
                "choose a space with absolute values"
            )
        distributions = {}
        for key, parameter in self.parameters.items():
            with _said_of(self.name, key):
                distributions[key] = parameter.distribution(facts)
        return distributions


def shipped() -> list[str]:
    """Names of the spaces that come with the package."""
    return sorted(_shipped_files())


def load(name: str) -> Space:
    """A shipped space by its name, or one from a TOML file."""
    return parse(name, text(name))


def text(name: str) -> str:
    """The TOML of a shipped space or of a file."""
    if name in _shipped_files():
        return _shipped_files()[name].read_text(encoding="utf-8")
    if not name.endswith(".toml"):
        raise SpaceError(
            f"no search space {name!r}; there are {', '.join(shipped())}, or name a file that ends in .toml"
        )
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SpaceError(f"cannot read search space {name}: {error.strerror}") from None
    except ValueError:
        raise SpaceError(f"cannot read search space {name}: it is not a text file in UTF-8") from None


def parse(name: str, text: str) -> Space:
    """A space from TOML; its name is for messages."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpaceError(f"search space {name} is not TOML: {error}") from None
    about = content.pop("about", "")
    if not isinstance(about, str):
        raise SpaceError(f"search space {name}, about: {shown(about)} is not a text")
    parameters = {}
    for key, given in content.items():
        with _said_of(name, key):
            parameters[key] = read(key, given)
    if missing := [key for key in REQUIRED if key not in parameters]:
        raise SpaceError(
            f"search space {name} lacks {', '.join(missing)}: give a value, {{ choices = [...] }} or a range such as "
            "{ low = 1, high = 100, log = true }"
        )
    return Space(name, about, {key: parameters[key] for key in TAKES if key in parameters})


@contextmanager
def _said_of(space: str, key: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SpaceError(f"search space {space}, {key}: {error}") from None


def _shipped_files() -> dict[str, Traversable]:
    found = files("search_spaces").iterdir()
    return {entry.name.removesuffix(".toml"): entry for entry in found if entry.name.endswith(".toml")}
