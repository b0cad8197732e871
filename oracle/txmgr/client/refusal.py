"""Decoded reverts of contracts, and the action that follows for the call.

Each contract has its own `RefusalDecoder`; this module has none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from typing_extensions import override


class RefusalAction(StrEnum):
    """The action for the intent of a refused call."""

    # Try again later, from `Refusal.not_before` if the contract gives a time.
    WAIT = "wait"
    # The statement expired or its block was reorged; the next period replaces it.
    RENEW = "renew"
    # Another transmitter sent an equal call, or nothing is left to do.
    DROP = "drop"
    # A fault of this daemon or an unclear case; an operator has to review it.
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decoded revert of the contract; an empty name means that the error is unknown.

    `not_before` is when the call may work, in unix seconds, if the contract gives a time.
    `is_pause` means that an operator may end the wait sooner, and `is_taken` that another call has
    already done the same.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    action: RefusalAction = RefusalAction.HOLD
    not_before: int | None = None
    is_pause: bool = False
    is_taken: bool = False

    @override
    def __str__(self) -> str:
        if not self.name:
            return "reverted without a known reason"
        return f"{self.name}({', '.join(_format_value(argument) for argument in self.arguments)})"


# Decodes the output of a revert (`0x` hex, or None if there was none).
RefusalDecoder = Callable[[str | None], Refusal]


def _format_value(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
