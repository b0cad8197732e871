"""Stores and numbers every rule set that was used for scores in this database."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, func, insert, select

from oracle.domain.scoring.rules import Rules
from oracle.store.tables.selection_tables import rule_set


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The name, version and digest of a rule set.

    The digest is the sha256 of the rule set's canonical JSON, in hex. `version` is None if the
    database contains only the name.
    """

    name: str
    version: int | None
    sha256: str


def identify_rules(rules: Rules) -> RuleSet:
    """Return the name, version and digest of these rules."""
    return RuleSet(rules.name, rules.version, _hash_rules(rules).hex())


class RuleSetRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_or_assign_number(self, rules: Rules) -> int:
        """Return the number of these rules in this database, assigning one to new rules."""
        digest = _hash_rules(rules)
        query = select(rule_set.c.id).where(rule_set.c.sha256 == digest)
        number = self._connection.execute(query).scalar_one_or_none()
        if number is None:
            max_number = self._connection.execute(select(func.max(rule_set.c.id))).scalar()
            number = (max_number or 0) + 1
            row = (number, rules.name, rules.version, digest, rules.to_json())
            self._connection.execute(insert(rule_set).values(row))
        return int(number)

    def find_rules(self, digest: str) -> Rules | None:
        """Return the rules with this digest.

        The digest is the sha256 of the rules' canonical JSON, in hex. The result is None for
        unknown rules, and for rules of a release with other fields.
        """
        query = select(rule_set.c.text).where(rule_set.c.sha256 == bytes.fromhex(digest))
        rules_json = self._connection.execute(query).scalar_one_or_none()
        if rules_json is None:
            return None
        try:
            rules = Rules.from_json(rules_json)
        except ValueError:
            return None
        return rules if identify_rules(rules).sha256 == digest else None

    def find_rule_set(self, digest: str) -> RuleSet | None:
        """Return the rule set with this sha256 (hex), or None if it was never used."""
        query = select(rule_set).where(rule_set.c.sha256 == bytes.fromhex(digest))
        row = self._connection.execute(query).one_or_none()
        return None if row is None else _decode_rule_set_row(row)

    def list_all(self) -> list[RuleSet]:
        """Return every rule set that was ever used in this database, oldest first."""
        rows = self._connection.execute(select(rule_set).order_by(rule_set.c.id))
        return [_decode_rule_set_row(row) for row in rows]


def _hash_rules(rules: Rules) -> bytes:
    return sha256(rules.to_json().encode()).digest()


def _decode_rule_set_row(row: Any) -> RuleSet:  # noqa: ANN401  a row of any driver
    return RuleSet(row.name, row.version, row.sha256.hex())
