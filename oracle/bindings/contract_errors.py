"""Why the contract refuses, by its own errors, and what we do about each.

See docs/reference/rpc-requirements.md#contract-errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec
from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.abi import collapse_if_tuple, function_signature_to_4byte_selector
from typing_extensions import override

from oracle.resources import shipped

CONTRACT = "QoSOracle"
# Whose errors we can read; where two have one of the same name, it means the same.
_CONTRACTS = (CONTRACT, "TaskNetwork")
_SELECTOR_DIGITS = 10


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


# One line for every error that a push, a kickout or a start can meet. What is not here is held.
ACTIONS: Mapping[str, Action] = {
    "Paused": Action.WAIT,
    "TooSoon": Action.WAIT,
    "KicksRest": Action.WAIT,
    "KickNotReady": Action.WAIT,
    "KickLimit": Action.WAIT,
    "BucketEmpty": Action.WAIT,
    "TooFewMembers": Action.WAIT,
    "StaleScores": Action.WAIT,
    "WrongRules": Action.WAIT,
    "StaleAsOf": Action.RENEW,
    "AsOfTooOld": Action.RENEW,
    "Reorged": Action.RENEW,
    "Expired": Action.RENEW,
    "WrongReport": Action.RENEW,
    "WrongRound": Action.DROP,
    "NotBelowThreshold": Action.DROP,
    "NotMember": Action.DROP,
    "NoKick": Action.DROP,
    "KickLive": Action.DROP,
    "AlreadyProposed": Action.DROP,
    "KickDead": Action.DROP,
    "NotAllowed": Action.DROP,
    # Starts: the fold has not seen yet what the contract knows, and will void the draw.
    "NodeBusy": Action.WAIT,
    "NodeIsPaused": Action.WAIT,
    "WrongGpu": Action.WAIT,
    "WrongVersion": Action.WAIT,
    "TookPart": Action.WAIT,
    "GroupClosed": Action.WAIT,
    "NotDispatcher": Action.WAIT,
    "WrongStatus": Action.WAIT,
    "NotDirect": Action.HOLD,
    "BadLength": Action.HOLD,
    "NotAscending": Action.HOLD,
    "UnknownNode": Action.HOLD,
    "ScoreTooHigh": Action.HOLD,
    "ScoreErased": Action.HOLD,
    "StepTooLarge": Action.HOLD,
    "NoEvidence": Action.HOLD,
    "BadSignature": Action.HOLD,
    "BadSignatureLength": Action.HOLD,
    "BadReason": Action.HOLD,
    # A kickout is executed at the network contract, which listens to its own oracle alone.
    "NotOracle": Action.HOLD,
}

# The contract rests: a person may end that sooner than it says, by `resume` or `setLimits`.
OF_REST = frozenset({"Paused", "TooSoon"})

# A signer was removed, or the quorum changed, since they were gathered.
OF_SIGNATURES = frozenset({"BadSignature", "BadSignatureLength"})

# Of roles, setups, and what clients and nodes do: no call that the daemon makes can meet them.
NOT_OURS = frozenset(
    {
        "AlreadyMember", "AlreadyPaused", "BadGroupSize", "BadKind", "BadLimits", "BadName",
        "BadRules", "BadSettings", "BadSigners", "BadSize", "BadTimeout", "GroupFull",
        "GroupNotReady", "InGroup", "IndexSpaceFull", "KickedOut", "MembersPresent", "NoCode",
        "NotAdmin", "NotCreator", "NotItsTask", "NotKickedOut", "NotOffered", "NotPaused",
        "NotRegistered", "NothingToWithdraw", "OracleAlreadySet", "PauseCoolDown",
        "PauseTooLong", "PaymentRefused", "QuitPending", "RejoinTooEarly", "StakeTooLow",
        "StillTime", "TaskExists", "TooEarly", "TooLate", "TooManyModels", "UnknownGroup",
        "WrongMembers", "ZeroAddress", "ZeroResult",
    }
)  # fmt: skip

# The errors whose first argument is the time, in unix seconds, from which it may work.
_TELLS_WHEN = frozenset({"Paused", "TooSoon", "KickNotReady", "BucketEmpty"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A revert in the contract's own words; an empty name: it gave none that we know."""

    name: str
    arguments: tuple[Any, ...] = ()

    @property
    def action(self) -> Action:
        return ACTIONS.get(self.name, Action.HOLD)

    @property
    def not_before(self) -> int | None:
        """When it may work, where the contract says so."""
        if self.name not in _TELLS_WHEN or not self.arguments:
            return None
        return int(self.arguments[0]) or None

    @override
    def __str__(self) -> str:
        if not self.name:
            return "reverted without a reason that we know"
        return f"{self.name}({', '.join(_readable(one) for one in self.arguments)})"


def refusal_of(output: str | None) -> Refusal:
    """Read a revert's output, `0x` hex."""
    known = _errors().get((output or "")[:_SELECTOR_DIGITS])
    if output is None or known is None:
        return Refusal("")
    name, kinds = known
    try:
        return Refusal(name, tuple(decode(kinds, bytes.fromhex(output[_SELECTOR_DIGITS:]))))
    except (DecodingError, ValueError):
        return Refusal(name)


@cache
def _errors() -> dict[str, tuple[str, list[str]]]:
    """Name and types of every error of the contracts, by selector."""
    entries = [
        entry
        for contract in _CONTRACTS
        for entry in msgspec.json.decode(shipped(f"abi/{contract}.json").read_bytes())["abi"]
    ]
    named = [
        (entry["name"], [collapse_if_tuple(given) for given in entry["inputs"]])
        for entry in entries
        if entry["type"] == "error"
    ]
    return {_selector(name, kinds): (name, kinds) for name, kinds in named}


def _selector(name: str, kinds: list[str]) -> str:
    return "0x" + function_signature_to_4byte_selector(f"{name}({','.join(kinds)})").hex()


def _readable(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
