"""The rule sets that ever scored in this database, each under a number of its own."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, func, insert, select

from oracle.domain.scoring.rules import Rules
from oracle.store.tables.selection_tables import rule_set


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A rule set by name; the sha256 of its canonical JSON, in hex, tells it for sure.

    `version` None: the database does not know more of it than its name.
    """

    name: str
    version: int | None
    sha256: str


def named_by(rules: Rules) -> RuleSet:
    """Return what these rules are called."""
    return RuleSet(rules.name, rules.version, _digest(rules).hex())


class RuleSetRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def number_of(self, rules: Rules) -> int:
        """Return the number under which scores name these rules, a new one the first time."""
        digest = _digest(rules)
        numbered = select(rule_set.c.id).where(rule_set.c.sha256 == digest)
        number = self._connection.execute(numbered).scalar_one_or_none()
        if number is None:
            highest = self._connection.execute(select(func.max(rule_set.c.id))).scalar()
            number = (highest or 0) + 1
            row = (number, rules.name, rules.version, digest, rules.to_json())
            self._connection.execute(insert(rule_set).values(row))
        return int(number)

    def with_digest(self, digest: str) -> Rules | None:
        """Return the rules whose canonical JSON has this sha256, in hex.

        None: they never were here, or are of a release whose rule sets had other fields.
        """
        kept = select(rule_set.c.text).where(rule_set.c.sha256 == bytes.fromhex(digest))
        text = self._connection.execute(kept).scalar_one_or_none()
        if text is None:
            return None
        try:
            found = Rules.from_json(text)
        except ValueError:
            return None
        return found if named_by(found).sha256 == digest else None

    def named(self, digest: str) -> RuleSet | None:
        """Return what the rules with this sha256, in hex, are called; None: never were here."""
        kept = select(rule_set).where(rule_set.c.sha256 == bytes.fromhex(digest))
        row = self._connection.execute(kept).one_or_none()
        return None if row is None else _rule_set_of(row)

    def all(self) -> list[RuleSet]:
        """Return every one that ever scored here, the first one first."""
        rows = self._connection.execute(select(rule_set).order_by(rule_set.c.id))
        return [_rule_set_of(row) for row in rows]


def _digest(rules: Rules) -> bytes:
    return sha256(rules.to_json().encode()).digest()


def _rule_set_of(row: Any) -> RuleSet:  # noqa: ANN401  a row of any driver
    return RuleSet(row.name, row.version, row.sha256.hex())
