"""Tries a call without sending it: what it would do on the newest block, and for how much gas."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.publisher.line import Json, Line, Lines, RefusedError, RevertedError
from oracle.publisher.receipts import Call
from oracle.publisher.refusals import Refusal, refusal_of

# What the contract says to a push whose round is there already.
_TAKEN = "WrongRound"


class Outcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    # No endpoint answered, or they contradict each other.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the endpoints say; `gas` is an estimate where the call works, else 0."""

    outcome: Outcome
    gas: int = 0
    refusal: Refusal | None = None
    reason: str = ""


def preflight(lines: Lines, sender: Address, to: Address, calldata: str) -> Verdict:
    """Ask every endpoint what the call would do now.

    It works when every endpoint that answers says so, and is refused when all of them do.
    """
    return _common([_ask(line, sender, to, calldata) for line in lines.all])


def is_round_pending(lines: Lines, sender: Address, to: Address, calldata: str) -> bool:
    """Tell whether another push takes this one's round in the next block, as far as is known.

    So says an endpoint whose pending block holds what is in its pool. One that has no such block,
    or leaves the pool out of it, says nothing.
    """
    call = {"from": sender, "to": to, "data": calldata, "value": "0x0"}
    for line in lines.all:
        try:
            line.ask("eth_call", call, "pending")
        except RevertedError as error:
            if refusal_of(error.output).name == _TAKEN:
                return True
        except TransientError:
            continue
    return False


def preflight_all(lines: Lines, calls: Sequence[Call]) -> list[Verdict]:
    """Try several calls as `preflight` does each, by one batch for each endpoint.

    Each is tried on the newest block as it is: none sees what the others would do.
    """
    by_line = [_ask_all(line, calls) for line in lines.all]
    return [_common([verdicts[place] for verdicts in by_line]) for place in range(len(calls))]


def _common(verdicts: Sequence[Verdict]) -> Verdict:
    answered = [verdict for verdict in verdicts if verdict.outcome is not Outcome.UNKNOWN]
    if not answered:
        return verdicts[0] if verdicts else Verdict(Outcome.UNKNOWN, reason="no endpoint")
    if len({verdict.outcome for verdict in answered}) > 1:
        reasons = "; ".join(verdict.reason for verdict in answered if verdict.reason)
        return Verdict(Outcome.UNKNOWN, reason=f"the endpoints disagree: {reasons}")
    return max(answered, key=lambda verdict: verdict.gas)


def _ask(line: Line, sender: Address, to: Address, calldata: str) -> Verdict:
    call = {"from": sender, "to": to, "data": calldata, "value": "0x0"}
    try:
        line.ask("eth_call", call, "latest")
        # Of the same block: some endpoints would take what is in their pools for granted.
        return Verdict(Outcome.OK, gas=int(line.ask("eth_estimateGas", call, "latest"), 16))
    except RefusedError as error:
        return _refused(error)
    except (TransientError, TypeError, ValueError) as error:
        return Verdict(Outcome.UNKNOWN, reason=str(error))


def _ask_all(line: Line, calls: Sequence[Call]) -> list[Verdict]:
    given = [
        {"from": call.sender, "to": call.to, "data": call.calldata, "value": "0x0"}
        for call in calls
    ]
    try:
        tried = line.ask_each([("eth_call", (call, "latest")) for call in given])
        gas = line.ask_each([("eth_estimateGas", (call,)) for call in given])
    except TransientError as error:
        return [Verdict(Outcome.UNKNOWN, reason=str(error))] * len(calls)
    return [_verdict(*answers) for answers in zip(tried, gas, strict=True)]


def _verdict(tried: Json | RefusedError, gas: Json | RefusedError) -> Verdict:
    if isinstance(tried, RefusedError):
        return _refused(tried)
    if isinstance(gas, RefusedError):
        return _refused(gas)
    try:
        return Verdict(Outcome.OK, gas=int(gas, 16))
    except (TypeError, ValueError) as error:
        return Verdict(Outcome.UNKNOWN, reason=str(error))


def _refused(error: RefusedError) -> Verdict:
    if not isinstance(error, RevertedError):
        # A rate limit, a method that is off: no word of the contract.
        return Verdict(Outcome.UNKNOWN, reason=str(error))
    refusal = refusal_of(error.output)
    return Verdict(Outcome.REFUSED, refusal=refusal, reason=str(refusal))
