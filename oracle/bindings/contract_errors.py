"""Custom errors of the contracts, and the daemon's reaction to each.

See docs/reference/rpc-requirements.md#contract-errors.
"""

from collections.abc import Mapping
from functools import cache

from oracle.bindings.codec import decoded, errors_of
from oracle.txmgr.client.refusal import Action, Refusal

CONTRACT = "QoSOracle"
# Contracts whose errors are decoded; errors of the same name in both mean the same.
_CONTRACTS = (CONTRACT, "TaskNetwork")
_SELECTOR_DIGITS = 10


# One line for every error that a push, a kickout or a start can meet; any other error is held.
ACTIONS: Mapping[str, Action] = {
    "Paused": Action.WAIT,
    "TooSoon": Action.WAIT,
    "KicksRest": Action.WAIT,
    "KickNotReady": Action.WAIT,
    "KickLimit": Action.WAIT,
    "BucketEmpty": Action.WAIT,
    "TooFewOpen": Action.WAIT,
    "StaleScores": Action.WAIT,
    "StaleAsOf": Action.RENEW,
    "AsOfTooOld": Action.RENEW,
    "Reorged": Action.RENEW,
    "Expired": Action.RENEW,
    "WrongReport": Action.RENEW,
    # Signers, quorum or rules were replaced, or a limit was tightened, since the signature.
    "WrongConfig": Action.RENEW,
    "TooManyFalls": Action.RENEW,
    "NotReleasable": Action.RENEW,
    "BadLength": Action.RENEW,
    "WrongRound": Action.DROP,
    "NotBelowThreshold": Action.DROP,
    "NotRegistered": Action.DROP,
    "NotMember": Action.DROP,
    "AlreadyExpelled": Action.DROP,
    "NotExpelled": Action.DROP,
    "NoTarget": Action.DROP,
    "NoKick": Action.DROP,
    "KickLive": Action.DROP,
    "AlreadyProposed": Action.DROP,
    "KickDead": Action.DROP,
    "NotAllowed": Action.DROP,
    # Starts: the index lags behind the contract, and will discard the selection.
    "NodeBusy": Action.WAIT,
    "NodeIsPaused": Action.WAIT,
    "NotSelectable": Action.WAIT,
    "QuitPending": Action.WAIT,
    "GroupIncomplete": Action.WAIT,
    "WrongGpu": Action.WAIT,
    "WrongVersion": Action.WAIT,
    "TookPart": Action.WAIT,
    "GroupClosed": Action.WAIT,
    # Drops: a task of the group has started, or another one was created.
    "GroupRuns": Action.WAIT,
    "InGroup": Action.WAIT,
    "WrongMembers": Action.WAIT,
    "NotDispatcher": Action.WAIT,
    "WrongStatus": Action.WAIT,
    # Download requests: another account made one, and the index will see it.
    "AlreadyAsked": Action.WAIT,
    "BadName": Action.WAIT,
    # System tasks: the dispatcher's balance in the contract is too low until it is funded.
    "PurseTooSmall": Action.WAIT,
    "NotDirect": Action.HOLD,
    "NotAscending": Action.HOLD,
    "UnknownNode": Action.HOLD,
    "ScoreTooHigh": Action.HOLD,
    "ScoreErased": Action.HOLD,
    "AlreadyRegistered": Action.HOLD,
    "NoScore": Action.HOLD,
    "DeadlineTooFar": Action.HOLD,
    "NotEnoughGas": Action.HOLD,
    "NoEvidence": Action.HOLD,
    "BadSignature": Action.HOLD,
    "BadSignatureLength": Action.HOLD,
    "BadReason": Action.HOLD,
    # A kickout is executed at the network contract, which accepts calls only from its own oracle.
    "NotOracle": Action.HOLD,
}

# The contract is paused; `resume` or `setLimits` may end the pause earlier.
_PAUSES = frozenset({"Paused", "TooSoon"})

# Errors of a push whose round is already accepted, and of calls about a kickout that is already
# proposed, executed or cancelled.
_TAKEN = frozenset({"WrongRound", "KickLive", "AlreadyProposed", "AlreadyExpelled", "NoKick"})

# Errors of roles, setups, clients and nodes: no call of the daemon can meet them.
NOT_OURS = frozenset(
    {
        "Alone", "AlreadyMember", "AlreadyPaused", "AnswersOpen", "BadFloor",
        "BadGroupSize", "BadKind", "BadLimits", "BadRules", "BadSettings",
        "BadSigners", "BadSize", "BadTimeout", "ContestOpen", "FeeTooLow", "GroupFull",
        "GroupNotReady", "IndexSpaceFull", "KickedOut", "NoCode", "NotAdmin",
        "NotContested", "NotCreator", "NotItsLike", "NotItsTask", "NotKickedOut",
        "NotOffered", "NotPaused", "NothingToWithdraw", "OrderDiffers",
        "PauseCoolDown", "PauseTooLong", "PaymentRefused", "RejoinTooEarly",
        "RevealsLater", "StakeTooLow", "StillTime", "TaskExists", "TooEarly", "TooLate",
        "TooManyModels", "UnknownGroup", "WrongResult", "WrongReveal",
        "ZeroAddress", "ZeroResult",
    }
)  # fmt: skip

# Errors whose first argument is the time, in unix seconds, from which the call may succeed.
_TELLS_WHEN = frozenset({"Paused", "TooSoon", "KickNotReady", "BucketEmpty"})


def refusal_of(output: str | None) -> Refusal:
    """Return the refusal in a revert's output (`0x` hex)."""
    known = _errors().get((output or "")[:_SELECTOR_DIGITS])
    if output is None or known is None:
        return Refusal("")
    name, kinds = known
    try:
        arguments = decoded(kinds, bytes.fromhex(output[_SELECTOR_DIGITS:]))
    except ValueError:
        arguments = ()
    tells_when = name in _TELLS_WHEN and bool(arguments)
    return Refusal(
        name,
        tuple(arguments),
        ACTIONS.get(name, Action.HOLD),
        not_before=(int(str(arguments[0])) or None) if tells_when else None,
        is_pause=name in _PAUSES,
        is_taken=name in _TAKEN,
    )


@cache
def _errors() -> dict[str, tuple[str, list[str]]]:
    """Return the name and argument types of every error of the contracts, by selector."""
    return {
        selector: named
        for contract in _CONTRACTS
        for selector, named in errors_of(contract).items()
    }
