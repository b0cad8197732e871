"""Rule sets that were ever used for scores in this database, each with its own number."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, func, insert, select

from oracle.domain.scoring.rules import Rules
from oracle.store.tables.selection_tables import rule_set


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A rule set by name; the sha256 of its canonical JSON, in hex, identifies it.

    `version` is None if the database holds only its name.
    """

    name: str
    version: int | None
    sha256: str


def named_by(rules: Rules) -> RuleSet:
    """Return name, version and digest of these rules."""
    return RuleSet(rules.name, rules.version, _digest(rules).hex())


class RuleSetRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def number_of(self, rules: Rules) -> int:
        """Return the number of these rules in this database; assign one the first time."""
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
        """Return the rules whose canonical JSON has this sha256, in hex, or None.

        The result is None for unknown rules, and for rules of a release with other rule fields.
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
        """Return the rule set with this sha256, in hex, or None if it was never used here."""
        kept = select(rule_set).where(rule_set.c.sha256 == bytes.fromhex(digest))
        row = self._connection.execute(kept).one_or_none()
        return None if row is None else _rule_set_of(row)

    def all(self) -> list[RuleSet]:
        """Return every rule set ever used here, first one first."""
        rows = self._connection.execute(select(rule_set).order_by(rule_set.c.id))
        return [_rule_set_of(row) for row in rows]


def _digest(rules: Rules) -> bytes:
    return sha256(rules.to_json().encode()).digest()


def _rule_set_of(row: Any) -> RuleSet:  # noqa: ANN401  a row of any driver
    return RuleSet(row.name, row.version, row.sha256.hex())
