"""Decodes the custom errors of the contracts, and defines the daemon's reaction to each.

See docs/reference/rpc-requirements.md#contract-errors.
"""

from collections.abc import Mapping
from functools import cache

from oracle.bindings import objections, qos_roots, qos_words
from oracle.bindings.codec import decode_values, get_errors_by_selector
from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.txmgr.client.refusal import Refusal, RefusalAction

# The contracts whose errors are decoded. The reaction to an error depends only on its name.
CONTRACTS = (qos_roots.CONTRACT, qos_words.CONTRACT, objections.CONTRACT, "TaskNetwork")


# The reaction to every error that a call of the daemon can cause. A call that fails with any other
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
    # Since the signature, signers, quorum or rules were replaced, or a limit was tightened.
    "WrongConfig": RefusalAction.RENEW,
    # For proofs: a newer round was accepted, or the round was struck (withdrawn).
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
    # For an accusation or execution, the last root does not contain the interval. For `clear`, it
    # still does.
    "NotDue": RefusalAction.DROP,
    "OtherInterval": RefusalAction.DROP,
    "StillDue": RefusalAction.DROP,
    # The vetoer ended the kickout, or has not allowed it yet.
    "Spared": RefusalAction.DROP,
    "KickHeld": RefusalAction.DROP,
    # For words: all words are written already, or would exceed the limit on lowered lanes.
    "NothingWritten": RefusalAction.DROP,
    "NotAllowed": RefusalAction.DROP,
    # For objections: the node made another objection meanwhile, or the signature is no longer
    # valid.
    "WrongSeq": RefusalAction.DROP,
    "ObjectionExpired": RefusalAction.DROP,
    "NotSignedByNode": RefusalAction.DROP,
    "WordsTooLong": RefusalAction.DROP,
    # For starts: the index lags behind the contract, and will discard the selection once it has
    # caught up.
    "NodeBusy": RefusalAction.WAIT,
    "NodeIsPaused": RefusalAction.WAIT,
    "NotSelectable": RefusalAction.WAIT,
    "QuitPending": RefusalAction.WAIT,
    "GroupIncomplete": RefusalAction.WAIT,
    "WrongGpu": RefusalAction.WAIT,
    "WrongVersion": RefusalAction.WAIT,
    "TookPart": RefusalAction.WAIT,
    "GroupClosed": RefusalAction.WAIT,
    # For drops: a task of the group has started, or another task of the group was created.
    "GroupRuns": RefusalAction.WAIT,
    "InGroup": RefusalAction.WAIT,
    "WrongMembers": RefusalAction.WAIT,
    "NotDispatcher": RefusalAction.WAIT,
    "WrongStatus": RefusalAction.WAIT,
    # For download requests: another account requested the download, which the index will show.
    "AlreadyAsked": RefusalAction.WAIT,
    "BadName": RefusalAction.WAIT,
    # For system tasks: the dispatcher's balance in the contract is too low until the contract is
    # funded.
    "PurseTooSmall": RefusalAction.WAIT,
    "DeadlineTooFar": RefusalAction.HOLD,
    "NotEnoughGas": RefusalAction.HOLD,
    "BadSignature": RefusalAction.HOLD,
    "BadSignatureLength": RefusalAction.HOLD,
    "BadReason": RefusalAction.HOLD,
    "BadRun": RefusalAction.HOLD,
    "LaneTooHigh": RefusalAction.HOLD,
    # The network contract, which ends the membership at a kickout, accepts calls only from its own
    # oracle.
    "NotOracle": RefusalAction.HOLD,
}

# With these errors, the contract is paused; `resume` or `setLimits` may end the pause earlier.
_PAUSE_ERRORS = frozenset({"Paused", "TooSoon"})

# With these errors, the purpose of the call is fulfilled: a push whose round is accepted already,
# a call about a kickout that is accused, executed or cancelled already, or words that are written
# already.
_ALREADY_DONE_ERRORS = frozenset(
    {
        *("WrongRound", "AlreadyAccused", "AlreadyExpelled", "NoKick", "NothingWritten"),
    }
)

# With these errors, the first argument is the unix time from which the call may succeed.
_ERRORS_WITH_TIME = frozenset({"Paused", "TooSoon", "KickNotReady", "BucketEmpty"})
# A larger number does not fit the database, and a false response may contain any number.
_MAX_TIME = 2**40


def decode_refusal(output: str | None) -> Refusal:
    """Decode the custom error in a revert's output (`0x` hex), with the daemon's reaction."""
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
    """Return the name and the argument types of every contract error, by selector."""
    return {
        selector: name_and_types
        for contract in CONTRACTS
        for selector, name_and_types in get_errors_by_selector(contract).items()
    }
