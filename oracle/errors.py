"""The expected failures, with one exception class per reaction: retry, stop, or report.

Any other exception is a bug and ends the process.
"""


class OracleError(Exception):
    """Base class of all expected failures."""


class TransientError(OracleError):
    """A temporary failure; the next tick retries.

    `retry_after` is the number of seconds that the failing server asked to wait, or None.
    """

    retry_after: float | None = None


class FatalError(OracleError):
    """A permanent failure: the process stops with exit code 1."""


class InputError(FatalError):
    """A mistake that the user can correct: exit code 2, a one-line message, no partial writes."""
