"""The economic parameters of the simulated network.

Money is in gwei of the network's coin. See docs/explanation/attacks.md#the-networks-money.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

GWEI_PER_COIN = 10**9
_HOUR = 3600
_BOOLEANS = {"true": True, "false": False}
_MAX_DIGITS = 18


class GasAction(StrEnum):
    """The transactions that cost gas."""

    JOIN = "join"
    QUIT = "quit"
    CREATE = "create"
    CREATE_IN_GROUP = "create_in_group"
    ANSWER = "answer"
    ANSWER_IN_GROUP = "answer_in_group"
    VALIDATE = "validate"
    VALIDATE_GROUP = "validate_group"
    TIME_OUT = "time_out"


# Gas that was measured on the reference network's contracts. An answer in a group takes two
# transactions, which are a commitment and a reveal.
_GAS_BY_ACTION: Mapping[GasAction, int] = {
    GasAction.JOIN: 107_180,
    GasAction.QUIT: 60_000,
    GasAction.CREATE: 127_212,
    GasAction.CREATE_IN_GROUP: 141_501,
    GasAction.ANSWER: 62_034,
    GasAction.ANSWER_IN_GROUP: 104_749,
    GasAction.VALIDATE: 63_268,
    GasAction.VALIDATE_GROUP: 119_087,
    GasAction.TIME_OUT: 65_321,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Economics:
    """The economic parameters of the network.

    Money is in gwei, times are in seconds.

    Raises:
        ValueError: a number is negative; the message names the field.
    """

    # Minimum fee and timeout of a task of size 0, and their growth per unit of size. The fee
    # equals a node's cost for the seconds of the timeout, because an order can occupy the node for
    # that time.
    base_fee: int = 24_000_000
    unit_fee: int = 2_000_000
    base_seconds: int = 60
    unit_seconds: int = 5
    # With `floors`, the contract rejects fees and timeouts below the minimum. With `tolls`, it
    # keeps the minimum fee of a task that times out.
    floors: bool = True
    tolls: bool = True

    least_stake: int = 400 * GWEI_PER_COIN
    # Cost of one second of computing, and of one hour online.
    gpu_second: int = 400_000
    node_hour: int = 1_000_000_000
    # Price of a unit of gas, in wei.
    gas_price: int = 10**9

    # True if the answers of a group stay hidden until all members have committed to theirs.
    commit_reveal: bool = True
    # True if a minority loses its stake only after a second group has confirmed the majority.
    revalidation: bool = True
    # True if the dispatcher orders these second groups. Otherwise, contests lapse.
    second_groups: bool = True
    # True if a member that reports an error is slashed when the majority agrees on a result.
    error_is_slashed: bool = True

    rejoin_delay: int = 1800
    # Seconds after which a kicked-out node may rejoin with the same address. If `forever`, it may
    # never rejoin with it.
    kick_cooldown: int = 0
    forever: bool = True
    # A node is accused `report_seconds` after its kickout became due. The kickout is executed
    # `veto_delay` seconds later.
    report_seconds: int = 180
    veto_delay: int = 3600
    # True if leaving while a kickout is pending counts as being kicked out.
    quit_is_kickout: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name}: must be 0 or more")

    def compute_min_fee(self, size: int) -> int:
        """Return the minimum fee of a task of this size."""
        return self.base_fee + self.unit_fee * size

    def compute_min_timeout(self, size: int) -> int:
        """Return the minimum timeout of a task of this size."""
        return self.base_seconds + self.unit_seconds * size

    def compute_toll(self, size: int, fee: int) -> int:
        """Return the toll in gwei that a creator loses if a task times out."""
        return min(fee, self.compute_min_fee(size)) if self.tolls else 0

    def compute_gas_cost(self, action: GasAction) -> int:
        """Return the gas cost of a transaction, in gwei."""
        return _GAS_BY_ACTION[action] * self.gas_price // 10**9

    def compute_hosting_cost(self, seconds: int) -> int:
        """Return the cost of keeping a node online for some seconds, in gwei."""
        return self.node_hour * seconds // _HOUR

    def with_changes(self, changes: Mapping[str, str]) -> "Economics":
        """Return a copy with changed parameters.

        `changes` maps names to new values as text.

        Raises:
            ValueError: a parameter does not exist, or its value is invalid; the message names it.
        """
        type_by_field = {field.name: field.type for field in fields(self)}
        changed_values: dict[str, Any] = {}
        for name, text in changes.items():
            if name not in type_by_field:
                raise ValueError(
                    f"{name}: no such parameter (available: {', '.join(type_by_field)})"
                )
            changed_values[name] = _parse_value(
                name, text.strip(), is_boolean=type_by_field[name] is bool
            )
        return replace(self, **changed_values)


def _parse_value(name: str, text: str, *, is_boolean: bool) -> int:
    if is_boolean:
        if text not in _BOOLEANS:
            raise ValueError(f"{name}: must be true or false, not {text!r}")
        return _BOOLEANS[text]
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise ValueError(f"{name}: must be a whole number, not {text[:_MAX_DIGITS]!r}")
    return int(text)
