"""What the daemon does next when something fails: try again, stop, or tell the user.

There are no other kinds. Anything else that is raised is a bug, and ends the process.
"""


class OracleError(Exception):
    """A failure that we have a word for."""


class TransientError(OracleError):
    """Passes by itself: the next tick tries again.

    `retry_after`: in how many seconds, where whoever failed said so; None: it did not.
    """

    retry_after: float | None = None


class FatalError(OracleError):
    """Does not pass by itself: the process stops, exit code 1."""


class InputError(FatalError):
    """Something a user can put right: one clear line, exit code 2, nothing half-written."""
