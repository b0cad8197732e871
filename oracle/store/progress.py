"""Where commands that may be interrupted stand: a small text under a name."""

from sqlalchemy import Connection


class ProgressRoom:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """Return what was left under this name."""
        raise NotImplementedError

    def set(self, name: str, value: str) -> None:
        """Leave a text under a name, for the next start."""
        raise NotImplementedError

    def clear(self, name: str) -> None:
        """Forget it: the command came to its end."""
        raise NotImplementedError
