"""Checks I10: the reserved amount fits into the balance and all limits when it increases."""

import sqlite3
from dataclasses import dataclass

from tests.simulation.world import World

MILLIETHER = 10**15
_HOUR = 3_600

# For each nonce without a receipt: the maximum cost of its most expensive attempt; without an
# attempt, the amount reserved for its call.
_SLOTS = (
    "SELECT s.nonce, s.state, s.opened_at, s.gas_used, s.gas_price_wei, i.max_cost_wei"
    " FROM pub_nonce s LEFT JOIN pub_intent i ON i.nonce = s.nonce AND i.state = 'assigned'"
)
_ATTEMPTS = "SELECT nonce, gas_limit, max_fee_wei, reason, signed_at FROM pub_attempt"

_ASSIGNED = "SELECT count(*) FROM pub_journal WHERE event = 'assigned'"


@dataclass
class _Nonce:
    state: str
    cost: int
    newest: int
    is_spent: bool
    has_bytes: bool = False


class Money:
    """The amounts that the rows reserve, computed by separate SQL."""

    def __init__(self, rows: sqlite3.Connection, world: World) -> None:
        self._rows = rows
        self._world = world
        self._given = self._reserved = 0

    def check(self, balance: int | None, now: float | None) -> list[tuple[str, str]]:
        """Return the violations.

        `balance` is the last balance received, in wei; `now` is in Unix seconds. A fork or a
        drought may increase the reserved amount or reduce the balance, without a commit. Only
        commits that assign a nonce or raise its price are judged.
        """
        nonces, attempts = self._read()
        assignment_count = attempts + self._rows.execute(_ASSIGNED).fetchone()[0]
        reserved = sum(slot.cost for slot in nonces.values() if slot.state in {"open", "live"})
        is_ours = assignment_count > self._given and reserved > self._reserved
        self._given, self._reserved = assignment_count, reserved
        return self._judge(nonces, balance, now) if is_ours else []

    def _judge(
        self, nonces: dict[int, _Nonce], balance: int | None, now: float | None
    ) -> list[tuple[str, str]]:
        setting = self._world.setting
        faults: list[tuple[str, str]] = []
        if balance is not None and self._reserved > balance:
            faults.append(("I10", f"{self._reserved} wei are reserved, of {balance}"))
        dearest = max(slot.cost for slot in nonces.values() if not slot.is_spent)
        if dearest > setting.call_cap * MILLIETHER:
            faults.append(("I10", f"a call may cost {dearest} wei, above its cap"))
        if now is not None:
            since = int(now) - _HOUR
            spent = sum(slot.cost for slot in nonces.values() if slot.newest >= since)
            if spent > setting.hour_cap * MILLIETHER:
                faults.append(("I10", f"{spent} wei in an hour, above its cap"))
        return faults

    def _read(self) -> tuple[dict[int, _Nonce], int]:
        nonces: dict[int, _Nonce] = {}
        for nonce, state, opened, gas, price, promised in self._rows.execute(_SLOTS):
            is_spent = gas is not None
            cost = gas * _wei(price) if is_spent else _wei(promised)
            nonces[nonce] = _Nonce(state, cost, opened, is_spent)
        count = 0
        for nonce, limit, fee, reason, signed in self._rows.execute(_ATTEMPTS):
            count += 1
            slot = nonces[nonce]
            if not slot.is_spent:
                max_cost_wei = limit * _wei(fee)
                slot.cost = max(slot.cost, max_cost_wei) if slot.has_bytes else max_cost_wei
                slot.has_bytes = True
            if reason != "first":
                slot.newest = max(slot.newest, signed)
        return nonces, count


def _wei(encoded: bytes | None) -> int:
    return int.from_bytes(encoded) if encoded is not None else 0
