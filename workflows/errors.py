"""Mistakes of users and of the world around them: each says what is wrong, where, and what to do now."""

from mmbsgd.errors import MmbsgdError


class DataError(MmbsgdError):
    """Data cannot be read, prepared or written."""


class StudyError(MmbsgdError):
    """A study cannot start or go on."""


class ClusterError(MmbsgdError):
    """No Ray cluster to work on."""


class TrackingError(MmbsgdError):
    """MLflow cannot be used."""


class TrackingBusy(TrackingError):
    """Another process is writing the same study to MLflow."""


class ExportError(MmbsgdError):
    """A model cannot be written as asked."""
