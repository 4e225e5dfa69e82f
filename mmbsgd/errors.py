"""What is wrong, where, and what to do now."""


class MmbsgdError(Exception):
    """A user's mistake or a broken environment: shown as a message, without a traceback, by the command."""


class ModelFileError(MmbsgdError, ValueError):
    """A model file that cannot be read."""


class InputError(MmbsgdError, ValueError):
    """Data or parameters that cannot be trained on."""
