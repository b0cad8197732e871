"""What a contract says when it refuses a call, and what becomes of the call then.

Whoever knows a contract reads its reverts (`RefusalDecoder`); here nobody does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from typing_extensions import override


class Action(StrEnum):
    """What becomes of the intent."""

    # Ask again later: `Refusal.not_before` says from when, where the contract does.
    WAIT = "wait"
    # The statement is too old or of a block that is gone: the next period carries everything.
    RENEW = "renew"
    # Somebody else did it, or there is nothing to do any more.
    DROP = "drop"
    # Our fault or an open question: a human has to look.
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A revert in the contract's own words; an empty name: it gave none that we know.

    `not_before`: when it may work, in unix seconds, where the contract says so. `is_pause`: a
    person may end that sooner than it says. `is_taken`: another's call has done what this is for.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    action: Action = Action.HOLD
    not_before: int | None = None
    is_pause: bool = False
    is_taken: bool = False

    @override
    def __str__(self) -> str:
        if not self.name:
            return "reverted without a reason that we know"
        return f"{self.name}({', '.join(_readable(one) for one in self.arguments)})"


# Reads a revert's output, `0x` hex; None: there was none.
RefusalDecoder = Callable[[str | None], Refusal]


def _readable(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
