"""Decodes the contracts' custom errors, and defines how the daemon reacts to each.

See docs/reference/rpc-requirements.md#contract-errors.
"""

from collections.abc import Mapping
from functools import cache

from oracle.bindings import objections, qos_roots, qos_words
from oracle.bindings.codec import decode_values, get_errors_by_selector
from oracle.chain.decode.abi import SELECTOR_DIGITS
from oracle.txmgr.client.refusal import Refusal, RefusalAction

# Contracts whose errors are decoded. Errors with the same name are handled alike, whichever
# contract raised them.
CONTRACTS = (qos_roots.CONTRACT, qos_words.CONTRACT, objections.CONTRACT, "TaskNetwork")


# The daemon's reaction to each error that its calls can cause. A call that fails with any other
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
    # A proof fails if a newer round was accepted meanwhile, or if its round was struck
    # (withdrawn).
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
    # An accusation or an execution fails if the last root lacks the interval. `clear` fails if the
    # last root still contains it.
    "NotDue": RefusalAction.DROP,
    "OtherInterval": RefusalAction.DROP,
    "StillDue": RefusalAction.DROP,
    # The vetoer ended the kickout, or has not allowed it yet.
    "Spared": RefusalAction.DROP,
    "KickHeld": RefusalAction.DROP,
    # A call that writes words fails if all of them are already written, or if it would lower more
    # lanes than allowed.
    "NothingWritten": RefusalAction.DROP,
    "NotAllowed": RefusalAction.DROP,
    # An objection fails if the node made another one meanwhile, or if the signature is no longer
    # valid.
    "WrongSeq": RefusalAction.DROP,
    "ObjectionExpired": RefusalAction.DROP,
    "NotSignedByNode": RefusalAction.DROP,
    "WordsTooLong": RefusalAction.DROP,
    # A start fails if the index lags behind the contract. Once the index has caught up, it drops
    # the selection.
    "NodeBusy": RefusalAction.WAIT,
    "NodeIsPaused": RefusalAction.WAIT,
    "NotSelectable": RefusalAction.WAIT,
    "QuitPending": RefusalAction.WAIT,
    "GroupIncomplete": RefusalAction.WAIT,
    "WrongGpu": RefusalAction.WAIT,
    "WrongVersion": RefusalAction.WAIT,
    "TookPart": RefusalAction.WAIT,
    "GroupClosed": RefusalAction.WAIT,
    # A drop fails if a task of the group started meanwhile, or if another task of the group was
    # created.
    "GroupRuns": RefusalAction.WAIT,
    "InGroup": RefusalAction.WAIT,
    "WrongMembers": RefusalAction.WAIT,
    "NotDispatcher": RefusalAction.WAIT,
    "WrongStatus": RefusalAction.WAIT,
    # A download request fails if another account made the same request. The index will soon show
    # that request.
    "AlreadyAsked": RefusalAction.WAIT,
    "BadName": RefusalAction.WAIT,
    # A system task fails if the dispatcher's balance in the contract is too low. The operator must
    # then top it up.
    "PurseTooSmall": RefusalAction.WAIT,
    "DeadlineTooFar": RefusalAction.HOLD,
    "NotEnoughGas": RefusalAction.HOLD,
    "BadSignature": RefusalAction.HOLD,
    "BadSignatureLength": RefusalAction.HOLD,
    "BadReason": RefusalAction.HOLD,
    "BadRun": RefusalAction.HOLD,
    "LaneTooHigh": RefusalAction.HOLD,
    # The network's contract removes a kicked node only if the call comes from the network's own
    # oracle.
    "NotOracle": RefusalAction.HOLD,
}

# These errors mean that the contract is paused. `resume` or `setLimits` may end the pause before
# the time in the error.
_PAUSE_ERRORS = frozenset({"Paused", "TooSoon"})

# After these errors, nothing is left to do, because the round is already accepted, the kickout
# already accused, executed or cancelled, or the words already written.
_ALREADY_DONE_ERRORS = frozenset(
    {
        *("WrongRound", "AlreadyAccused", "AlreadyExpelled", "NoKick", "NothingWritten"),
    }
)

# The first argument of these errors is the Unix time from which the call may succeed.
_ERRORS_WITH_TIME = frozenset({"Paused", "TooSoon", "KickNotReady", "BucketEmpty"})
# A dishonest endpoint may return any number, and a larger time does not fit the database column.
_MAX_TIME = 2**40


def decode_refusal(output: str | None) -> Refusal:
    """Decode the custom error in a revert's output, with the daemon's reaction to it.

    The output is `0x` hex.
    """
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
    """Return the name and argument types of every contract error, keyed by selector."""
    return {
        selector: name_and_types
        for contract in CONTRACTS
        for selector, name_and_types in get_errors_by_selector(contract).items()
    }
