"""Mistakes of users and of the world around them: each says what is wrong, where, and what to do now."""

from mmbsgd.errors import MmbsgdError

LONGEST_QUOTE = 300


class DataError(MmbsgdError):
    """Data cannot be read, prepared or written."""


class StudyError(MmbsgdError):
    """A study cannot start or go on."""


class BegunOtherwise(StudyError):
    """A study of that name was begun with other settings."""


class ClusterError(MmbsgdError):
    """No Ray cluster to work on."""


class TrackingError(MmbsgdError):
    """MLflow cannot be used."""


class TrackingBusy(TrackingError):
    """Another process is writing the same study to MLflow."""


class ExportError(MmbsgdError):
    """A model cannot be written as asked."""


def one_line(said: BaseException | str) -> str:
    """What another program said, for a message of ours."""
    text = " ".join(str(said).split())
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"
