"""What a study may search: TOML files, and the code that turns them into Optuna's distributions."""

from search_spaces.space import Space, SpaceError, load, parse, shipped

__all__ = ["Space", "SpaceError", "load", "parse", "shipped"]
