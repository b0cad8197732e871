"""What work, silence and lies cost in the reference network: pure arithmetic in gwei of its coin.

See docs/explanation/attacks.md#the-networks-money.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

COIN = 10**9
_HOUR = 3600
_TRUTHS = {"true": True, "false": False}
_MOST_DIGITS = 18


class Gas(StrEnum):
    """What is sent to the contracts, by who pays for it."""

    JOIN = "join"
    QUIT = "quit"
    CREATE = "create"
    CREATE_IN_GROUP = "create_in_group"
    ANSWER = "answer"
    ANSWER_IN_GROUP = "answer_in_group"
    VALIDATE = "validate"
    VALIDATE_GROUP = "validate_group"
    TIME_OUT = "time_out"


# Measured on the reference network's contracts; an answer in a group is committed and revealed.
_GAS: Mapping[Gas, int] = {
    Gas.JOIN: 107_180,
    Gas.QUIT: 60_000,
    Gas.CREATE: 127_212,
    Gas.CREATE_IN_GROUP: 141_501,
    Gas.ANSWER: 62_034,
    Gas.ANSWER_IN_GROUP: 104_749,
    Gas.VALIDATE: 63_268,
    Gas.VALIDATE_GROUP: 119_087,
    Gas.TIME_OUT: 65_321,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Economics:
    """The numbers of the network that a strategy meets; money in gwei, times in seconds.

    Raises:
        ValueError: a negative number; the field is named.
    """

    # Least fee and least timeout of a task of size 0, and what each unit of size adds. The fee is
    # what the seconds of the timeout cost a node: that much of its time an order can take.
    base_fee: int = 24_000_000
    unit_fee: int = 2_000_000
    base_seconds: int = 60
    unit_seconds: int = 5
    # Whether the contract refuses what is below them, and keeps the least fee at a timeout.
    floors: bool = True
    tolls: bool = True

    least_stake: int = 400 * COIN
    # What a second of computing costs a node, and an hour of being there at all.
    gpu_second: int = 400_000
    node_hour: int = 1_000_000_000
    # In wei.
    gas_price: int = 10**9

    # Answers in a group are hidden until all are in.
    commit_reveal: bool = True
    # A minority of a group loses its stake only where a second group says the same.
    revalidation: bool = True
    # The dispatcher orders these second groups; where it does not, contests lapse.
    second_groups: bool = True
    # An error report beside an agreed result is slashed as a false result is.
    error_is_slashed: bool = True

    rejoin_delay: int = 1800
    # How long who was kicked out must stay away by the same address; `forever`: it never can.
    kick_cooldown: int = 0
    forever: bool = True
    # From the first report that shows it low to the execution of a kickout.
    report_seconds: int = 180
    veto_delay: int = 3600
    # Leaving while a kickout is pending is the kickout.
    quit_is_kickout: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name}: must be 0 or more")

    def least_fee(self, size: int) -> int:
        """Return the least fee of a task of this size."""
        return self.base_fee + self.unit_fee * size

    def least_timeout(self, size: int) -> int:
        """Return the least timeout of a task of this size."""
        return self.base_seconds + self.unit_seconds * size

    def toll(self, size: int, fee: int) -> int:
        """Return what a creator loses when a task of his times out."""
        return min(fee, self.least_fee(size)) if self.tolls else 0

    def gas(self, deed: Gas) -> int:
        """Return what it costs to send this."""
        return _GAS[deed] * self.gas_price // 10**9

    def hosting(self, seconds: int) -> int:
        """Return what it costs to keep a node there for so long."""
        return self.node_hour * seconds // _HOUR

    def changed(self, changes: Mapping[str, str]) -> "Economics":
        """Return them with some numbers changed, given as text.

        Raises:
            ValueError: no such number, or a text that is no value of it; the number is named.
        """
        known = {field.name: field.type for field in fields(self)}
        values: dict[str, Any] = {}
        for name, text in changes.items():
            if name not in known:
                raise ValueError(f"{name}: no such number (there is {', '.join(known)})")
            values[name] = _value(name, text.strip(), is_truth=known[name] is bool)
        return replace(self, **values)


def _value(name: str, text: str, *, is_truth: bool) -> int:
    if is_truth:
        if text not in _TRUTHS:
            raise ValueError(f"{name}: must be true or false, not {text!r}")
        return _TRUTHS[text]
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise ValueError(f"{name}: must be a whole number, not {text[:_MOST_DIGITS]!r}")
    return int(text)
