"""Exceptions by the daemon's reaction: retry, stop, or report to the user.

There are no other kinds: any other exception is a bug and ends the process.
"""


class OracleError(Exception):
    """Base class of all expected failures."""


class TransientError(OracleError):
    """A temporary failure; the next tick retries.

    `retry_after`: seconds to wait, if the failing party stated them; else None.
    """

    retry_after: float | None = None


class FatalError(OracleError):
    """A permanent failure: the process stops with exit code 1."""


class InputError(FatalError):
    """A mistake that the user can correct: one clear line, exit code 2, nothing half-written."""
