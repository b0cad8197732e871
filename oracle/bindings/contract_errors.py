"""Custom errors of the contracts, and the daemon's reaction to each.

See docs/reference/rpc-requirements.md#contract-errors.
"""

from collections.abc import Mapping
from functools import cache

from oracle.bindings import objections, qos_roots, qos_words
from oracle.bindings.codec import decode_values, get_errors_by_selector
from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.txmgr.client.refusal import Refusal, RefusalAction

# Contracts whose errors are decoded; the reaction to an error depends only on its name.
CONTRACTS = (qos_roots.CONTRACT, qos_words.CONTRACT, objections.CONTRACT, "TaskNetwork")


# The reaction to every error that a call of the daemon can cause; a call that fails with any other
# error is held.
ACTIONS: Mapping[str, RefusalAction] = {
    "Paused": RefusalAction.WAIT,
    "TooSoon": RefusalAction.WAIT,
    "KicksRest": RefusalAction.WAIT,
    "KickNotReady": RefusalAction.WAIT,
    "BucketEmpty": RefusalAction.WAIT,
    "TooFewOpen": RefusalAction.WAIT,
    "StaleScores": RefusalAction.WAIT,
    "StaleAsOf": RefusalAction.RENEW,
    "AsOfTooOld": RefusalAction.RENEW,
    "Reorged": RefusalAction.RENEW,
    "Expired": RefusalAction.RENEW,
    # Signers, quorum or rules were replaced, or a limit was tightened, since the signature.
    "WrongConfig": RefusalAction.RENEW,
    # Proofs: a newer round was accepted, or the round was struck.
    "NotProven": RefusalAction.RENEW,
    "SummaryNotProven": RefusalAction.RENEW,
    "WordsNotProven": RefusalAction.RENEW,
    "NoRoot": RefusalAction.RENEW,
    "WrongRound": RefusalAction.DROP,
    "NotBelowThreshold": RefusalAction.DROP,
    "NotRegistered": RefusalAction.DROP,
    "NotMember": RefusalAction.DROP,
    "AlreadyExpelled": RefusalAction.DROP,
    "NotExpelled": RefusalAction.DROP,
    "NoTarget": RefusalAction.DROP,
    "NoKick": RefusalAction.DROP,
    "AlreadyAccused": RefusalAction.DROP,
    # Accusation or execution: the last root does not contain the interval. `clear`: it still does.
    "NotDue": RefusalAction.DROP,
    "OtherInterval": RefusalAction.DROP,
    "StillDue": RefusalAction.DROP,
    # The vetoer ended the kickout, or has not allowed it yet.
    "Spared": RefusalAction.DROP,
    "KickHeld": RefusalAction.DROP,
    # Words: all are written already, or would exceed the limit on falls.
    "NothingWritten": RefusalAction.DROP,
    "NotAllowed": RefusalAction.DROP,
    # Objections: the node made another one meanwhile, or the signature is no longer valid.
    "WrongSeq": RefusalAction.DROP,
    "ObjectionExpired": RefusalAction.DROP,
    "NotSignedByNode": RefusalAction.DROP,
    "WordsTooLong": RefusalAction.DROP,
    # Starts: the index lags behind the contract, and will discard the selection.
    "NodeBusy": RefusalAction.WAIT,
    "NodeIsPaused": RefusalAction.WAIT,
    "NotSelectable": RefusalAction.WAIT,
    "QuitPending": RefusalAction.WAIT,
    "GroupIncomplete": RefusalAction.WAIT,
    "WrongGpu": RefusalAction.WAIT,
    "WrongVersion": RefusalAction.WAIT,
    "TookPart": RefusalAction.WAIT,
    "GroupClosed": RefusalAction.WAIT,
    # Drops: a task of the group has started, or another task of the group was created.
    "GroupRuns": RefusalAction.WAIT,
    "InGroup": RefusalAction.WAIT,
    "WrongMembers": RefusalAction.WAIT,
    "NotDispatcher": RefusalAction.WAIT,
    "WrongStatus": RefusalAction.WAIT,
    # Download requests: another account requested the download, and the index will show it.
    "AlreadyAsked": RefusalAction.WAIT,
    "BadName": RefusalAction.WAIT,
    # System tasks: the dispatcher's balance in the contract is too low until it is funded.
    "PurseTooSmall": RefusalAction.WAIT,
    "DeadlineTooFar": RefusalAction.HOLD,
    "NotEnoughGas": RefusalAction.HOLD,
    "BadSignature": RefusalAction.HOLD,
    "BadSignatureLength": RefusalAction.HOLD,
    "BadReason": RefusalAction.HOLD,
    "BadRun": RefusalAction.HOLD,
    "LaneTooHigh": RefusalAction.HOLD,
    # A kickout is executed at the network contract, which accepts calls only from its own oracle.
    "NotOracle": RefusalAction.HOLD,
}

# The contract is paused; `resume` or `setLimits` may end the pause earlier.
_PAUSE_ERRORS = frozenset({"Paused", "TooSoon"})

# Errors of a push whose round is already accepted, of calls about a kickout that is already
# accused, executed or cancelled, and of words that are already written.
_ALREADY_DONE_ERRORS = frozenset(
    {
        *("WrongRound", "AlreadyAccused", "AlreadyExpelled", "NoKick", "NothingWritten"),
    }
)

# Errors whose first argument is the time, in unix seconds, from which the call may succeed.
_ERRORS_WITH_TIME = frozenset({"Paused", "TooSoon", "KickNotReady", "BucketEmpty"})
# A false response may contain any number, and a larger one does not fit the database.
_MAX_TIME = 2**40


def decode_refusal(output: str | None) -> Refusal:
    """Decode the custom error in a revert's output (`0x` hex), and add the daemon's reaction."""
    error_entry = _build_errors_by_selector().get((output or "")[:SELECTOR_DIGITS])
    if output is None or error_entry is None:
        return Refusal("")
    name, types = error_entry
    try:
        arguments = decode_values(types, bytes.fromhex(output[SELECTOR_DIGITS:]))
    except ValueError:
        arguments = ()
    has_time = name in _ERRORS_WITH_TIME and bool(arguments)
    return Refusal(
        name,
        tuple(arguments),
        ACTIONS.get(name, RefusalAction.HOLD),
        not_before=(min(int(str(arguments[0])), _MAX_TIME) or None) if has_time else None,
        is_pause=name in _PAUSE_ERRORS,
        is_taken=name in _ALREADY_DONE_ERRORS,
    )


@cache
def _build_errors_by_selector() -> dict[str, tuple[str, list[str]]]:
    """Return the name and argument types of every contract error, by selector."""
    return {
        selector: name_and_types
        for contract in CONTRACTS
        for selector, name_and_types in get_errors_by_selector(contract).items()
    }
