"""Mistakes of users and of the world around them: each says what is wrong, where, and what to do now."""

from mmbsgd.errors import MmbsgdError


class DataError(MmbsgdError):
    """Data cannot be read, prepared or written."""
