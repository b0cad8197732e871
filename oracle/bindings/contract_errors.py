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


# What the daemon does after each error that its calls can cause. A call that fails with any other
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
    # The signers, the quorum or the rules were replaced after signing, or a limit was tightened.
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
    # An accusation or execution fails because the last root does not contain the interval; `clear`
    # fails because it still does.
    "NotDue": RefusalAction.DROP,
    "OtherInterval": RefusalAction.DROP,
    "StillDue": RefusalAction.DROP,
    # The vetoer ended the kickout, or has not allowed it yet.
    "Spared": RefusalAction.DROP,
    "KickHeld": RefusalAction.DROP,
    # For words: all of them are already written, or writing them would lower more lanes than
    # allowed.
    "NothingWritten": RefusalAction.DROP,
    "NotAllowed": RefusalAction.DROP,
    # For objections: the node made another objection meanwhile, or the signature is no longer
    # valid.
    "WrongSeq": RefusalAction.DROP,
    "ObjectionExpired": RefusalAction.DROP,
    "NotSignedByNode": RefusalAction.DROP,
    "WordsTooLong": RefusalAction.DROP,
    # For starts: the index lags behind the contract and will drop the selection once it catches
    # up.
    "NodeBusy": RefusalAction.WAIT,
    "NodeIsPaused": RefusalAction.WAIT,
    "NotSelectable": RefusalAction.WAIT,
    "QuitPending": RefusalAction.WAIT,
    "GroupIncomplete": RefusalAction.WAIT,
    "WrongGpu": RefusalAction.WAIT,
    "WrongVersion": RefusalAction.WAIT,
    "TookPart": RefusalAction.WAIT,
    "GroupClosed": RefusalAction.WAIT,
    # For drops: a task of the group started meanwhile, or another task of the group was created.
    "GroupRuns": RefusalAction.WAIT,
    "InGroup": RefusalAction.WAIT,
    "WrongMembers": RefusalAction.WAIT,
    "NotDispatcher": RefusalAction.WAIT,
    "WrongStatus": RefusalAction.WAIT,
    # For download requests: another account made the same request; the index will soon show it.
    "AlreadyAsked": RefusalAction.WAIT,
    "BadName": RefusalAction.WAIT,
    # For system tasks: the dispatcher's balance in the contract is too low; it must be funded.
    "PurseTooSmall": RefusalAction.WAIT,
    "DeadlineTooFar": RefusalAction.HOLD,
    "NotEnoughGas": RefusalAction.HOLD,
    "BadSignature": RefusalAction.HOLD,
    "BadSignatureLength": RefusalAction.HOLD,
    "BadReason": RefusalAction.HOLD,
    "BadRun": RefusalAction.HOLD,
    "LaneTooHigh": RefusalAction.HOLD,
    # The network's contract removes a kicked node from the network only if its own oracle calls
    # it.
    "NotOracle": RefusalAction.HOLD,
}

# These errors mean that the contract is paused; `resume` or `setLimits` may end the pause earlier.
_PAUSE_ERRORS = frozenset({"Paused", "TooSoon"})

# These errors mean that the call's goal is already reached: the round is already accepted, the
# kickout already accused, executed or cancelled, or the words already written.
_ALREADY_DONE_ERRORS = frozenset(
    {
        *("WrongRound", "AlreadyAccused", "AlreadyExpelled", "NoKick", "NothingWritten"),
    }
)

# The first argument of these errors is the Unix time from which the call may succeed.
_ERRORS_WITH_TIME = frozenset({"Paused", "TooSoon", "KickNotReady", "BucketEmpty"})
# A larger time does not fit the database column; a dishonest endpoint may return any number.
_MAX_TIME = 2**40


def decode_refusal(output: str | None) -> Refusal:
    """Return the custom error in a revert's output (`0x` hex), and the daemon's reaction to it."""
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
