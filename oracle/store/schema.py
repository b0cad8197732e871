"""Whether a database has our tables, and bringing it up to the code's (Alembic)."""

from dataclasses import dataclass
from enum import StrEnum


class SchemaAge(StrEnum):
    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"
    # Tables, but none of ours.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The database's revision beside the code's."""

    age: SchemaAge
    found: str | None
    wanted: str


def schema_state(url: str) -> SchemaState:
    """Look at the database without changing it; a file that is not there is EMPTY.

    Raises:
        InputError: it cannot be reached or read.
    """
    raise NotImplementedError


def migrate(url: str) -> SchemaState:
    """Bring the database to the code's revision in one transaction; return what it was before.

    Raises:
        InputError: it cannot be reached or written, is newer than the code, or is not ours.
        TransientError: another process is writing to it.
    """
    raise NotImplementedError
