"""Decoded reverts of contracts, and what follows from them for a call.

The package of each contract contains the contract's `RefusalDecoder`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from typing_extensions import override


class RefusalAction(StrEnum):
    """The action for the intent of a call that a contract refused."""

    # The call is tried again later, or from `Refusal.not_before` if the contract gives a time.
    WAIT = "wait"
    # The statement expired, or its block left the chain. The next period's report replaces it.
    RENEW = "renew"
    # Another transmitter has sent the same call, or nothing is left to do.
    DROP = "drop"
    # The daemon is at fault, or the case is unclear. An operator must therefore review the call.
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decoded revert of the contract.

    An empty name means that the error is unknown. `not_before` is the time from which the call may
    succeed, in unix seconds, or None if the contract does not return a time. `is_pause` is whether
    the contract is paused, so that the wait may end sooner. `is_taken` is whether another call has
    already had the same effect.
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


# A function that decodes the output of a revert (`0x` hex, or None without output).
RefusalDecoder = Callable[[str | None], Refusal]


def _format_value(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
