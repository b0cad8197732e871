"""Did a call do what it was sent for? Its receipt's events against its own input.

A status of 1 says only that nothing reverted: the event must be there, with our values in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from oracle.chain.decode.abi import AbiSignature, load
from oracle.domain.ids import Address, Hash
from oracle.txmgr.client.receipt_quorum import Receipt, ReceiptLog

_WORD = 64
_SELECTOR = 10


@dataclass(frozen=True, slots=True)
class _Effect:
    """The event that a function emits, and which inputs of both are equal: event's, function's."""

    contract: str
    function: str
    event: str
    inputs: Mapping[str, str]
    # The input of the event that is the statement's digest, where there is one.
    digest: str | None = None


_ROUND_OF_PUSH = {"round": "round", "asOf": "asOf", "asOfHash": "asOfHash", "rules": "rules"}
_EFFECTS = (
    _Effect("QoSOracle", "push", "RoundAccepted", _ROUND_OF_PUSH, "digest"),
    _Effect(
        "QoSOracle",
        "proposeKick",
        "KickProposed",
        {"index": "index", "evidence": "evidence"},
    ),
    _Effect("QoSOracle", "executeKick", "KickExecuted", {"index": "index"}),
    _Effect("QoSOracle", "cancelKick", "KickCancelled", {"index": "index", "why": "why"}),
    _Effect("TaskNetwork", "startTask", "TaskStarted", {"task": "key", "node": "account"}),
    _Effect("TaskNetwork", "startTaskAsOf", "TaskStarted", {"task": "key", "node": "account"}),
    _Effect("TaskNetwork", "queueTask", "TaskQueued", {"task": "key"}),
    _Effect("TaskNetwork", "dropTask", "TaskAborted", {"task": "key"}),
)


def missing_effect(
    receipt: Receipt, contract: Address, calldata: str, digest: Hash | None
) -> str | None:
    """Return the event that a call should have made and did not; None: it is there.

    `digest` of the statement that was pushed. A call that we know no event of, such as a
    transfer of nothing to ourselves, is asked for none.
    """
    effect = _by_selector().get(calldata[:_SELECTOR])
    if effect is None:
        return None
    expected = _expected(effect, calldata, digest)
    for event in receipt.events:
        if event.contract == contract and _values(effect, event) == expected:
            return None
    return effect.event


def _expected(effect: _Effect, calldata: str, digest: Hash | None) -> dict[str, str]:
    names = [given.name for given in load(effect.contract).functions[effect.function].inputs]
    words = {name: _word(calldata[_SELECTOR:], place) for place, name in enumerate(names)}
    wanted = {theirs: words[ours] for theirs, ours in effect.inputs.items()}
    if effect.digest is not None and digest is not None:
        wanted[effect.digest] = digest[2:]
    return wanted


def _values(effect: _Effect, event: ReceiptLog) -> dict[str, str] | None:
    """Return the words of the event that are compared; None: it is another event."""
    signature = load(effect.contract).events[effect.event]
    if not event.topics or event.topics[0] != signature.digest:
        return None
    words = _words(signature, event)
    names = [*effect.inputs, *([effect.digest] if effect.digest is not None else [])]
    return {name: words[name] for name in names}


def _words(signature: AbiSignature, event: ReceiptLog) -> dict[str, str]:
    """Return every input of an event as a word of hex; those of ours have a fixed size."""
    indexed = [given.name for given in signature.inputs if given.indexed]
    others = [given.name for given in signature.inputs if not given.indexed]
    found = dict(zip(indexed, (topic[2:] for topic in event.topics[1:]), strict=False))
    return found | {name: _word(event.words[2:], place) for place, name in enumerate(others)}


def _word(digits: str, place: int) -> str:
    return digits[_WORD * place : _WORD * (place + 1)].lower()


@cache
def _by_selector() -> dict[str, _Effect]:
    return {load(one.contract).functions[one.function].selector: one for one in _EFFECTS}
