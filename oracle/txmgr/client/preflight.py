"""Tries a call without sending it: what it would do on the newest block, and for how much gas."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.bindings.contract_errors import Action, Refusal, refusal_of
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError, RevertError
from oracle.store.outbox.records import IntentKind
from oracle.telemetry.outbox_metrics import SIMULATIONS
from oracle.txmgr.client.fee_quote import gas_limit, least_gas
from oracle.txmgr.client.receipts import SimulatedCall

# What the contract says to a push whose round is there already, and to calls about a kickout that
# is proposed, executed or cancelled already.
_TAKEN = frozenset({"WrongRound", "KickLive", "AlreadyProposed", "NoKick"})
# Nodes estimate a little differently; one that says twice as much as another is asked why.
_FAR_APART = 2


class PreflightOutcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    # No endpoint answered, or they contradict each other.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """What the endpoints say; `gas` is an estimate where the call works, else 0."""

    outcome: PreflightOutcome
    gas: int = 0
    refusal: Refusal | None = None
    reason: str = ""


def preflight(lines: PoolView, sender: Address, to: Address, calldata: str) -> PreflightResult:
    """Ask every endpoint what the call would do now.

    It works when every endpoint that answers says so, and is refused when all of them do. Of
    their estimates the highest counts, unless it is far above another which is enough on every
    endpoint: a single one that tells an absurd figure keeps no call waiting.
    """
    verdicts = [_ask(line, sender, to, calldata) for line in lines.all]
    return _settled(lines, SimulatedCall(sender, to, calldata), verdicts)


def is_taken_in_pool(lines: PoolView, sender: Address, to: Address, calldata: str) -> bool:
    """Tell whether another's call does in the next block what this one is to do, as far as known.

    So says an endpoint whose pending block holds what is in its pool. One that has no such block,
    or leaves the pool out of it, says nothing.
    """
    call = {"from": sender, "to": to, "data": calldata, "value": "0x0"}
    for line in lines.all:
        try:
            line.ask("eth_call", call, "pending")
        except RevertError as error:
            if refusal_of(error.data).name in _TAKEN:
                return True
        except TransientError:
            continue
    return False


def preflight_all(lines: PoolView, calls: Sequence[SimulatedCall]) -> list[PreflightResult]:
    """Try several calls as `preflight` does each, by one batch for each endpoint.

    Each is tried on the newest block as it is: none sees what the others would do.
    """
    by_line = [_ask_all(line, calls) for line in lines.all]
    return [
        _settled(lines, call, [verdicts[place] for verdicts in by_line])
        for place, call in enumerate(calls)
    ]


def _settled(
    lines: PoolView, call: SimulatedCall, verdicts: Sequence[PreflightResult]
) -> PreflightResult:
    """Make one of what the endpoints say, and ask again where their estimates are far apart."""
    common = _common(verdicts)
    if common.outcome is not PreflightOutcome.OK:
        return common
    for gas in sorted(one.gas for one in verdicts if one.outcome is PreflightOutcome.OK):
        if gas * _FAR_APART >= common.gas:
            break
        if _is_enough(lines, call, gas):
            return replace(common, gas=gas)
    return common


def _common(verdicts: Sequence[PreflightResult]) -> PreflightResult:
    answered = [verdict for verdict in verdicts if verdict.outcome is not PreflightOutcome.UNKNOWN]
    if not answered:
        return (
            verdicts[0]
            if verdicts
            else PreflightResult(PreflightOutcome.UNKNOWN, reason="no endpoint")
        )
    if len({verdict.outcome for verdict in answered}) > 1:
        reasons = "; ".join(verdict.reason for verdict in answered if verdict.reason)
        return PreflightResult(
            PreflightOutcome.UNKNOWN, reason=f"the endpoints disagree: {reasons}"
        )
    return max(answered, key=lambda verdict: verdict.gas)


def _is_enough(lines: PoolView, call: SimulatedCall, gas: int) -> bool:
    """Tell whether the call works with the limit of such an estimate, wherever it is answered."""
    limit = max(gas_limit(gas), least_gas(call.calldata))
    asked = {"from": call.sender, "to": call.to, "data": call.calldata, "value": "0x0"}
    works = 0
    for line in lines.all:
        try:
            line.ask("eth_call", {**asked, "gas": hex(limit)}, "latest")
        except CallRefusedError:
            return False
        except TransientError:
            continue
        works += 1
    return works > 0


def _ask(line: EndpointCaller, sender: Address, to: Address, calldata: str) -> PreflightResult:
    call = {"from": sender, "to": to, "data": calldata, "value": "0x0"}
    try:
        line.ask("eth_call", call, "latest")
        # Of the same block: some endpoints would take what is in their pools for granted.
        return PreflightResult(
            PreflightOutcome.OK, gas=int(line.ask("eth_estimateGas", call, "latest"), 16)
        )
    except CallRefusedError as error:
        return _refused(error)
    except (TransientError, TypeError, ValueError) as error:
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))


def _ask_all(line: EndpointCaller, calls: Sequence[SimulatedCall]) -> list[PreflightResult]:
    given = [
        {"from": call.sender, "to": call.to, "data": call.calldata, "value": "0x0"}
        for call in calls
    ]
    try:
        tried = line.ask_each([("eth_call", (call, "latest")) for call in given])
        gas = line.ask_each([("eth_estimateGas", (call,)) for call in given])
    except TransientError as error:
        return [PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))] * len(calls)
    return [_verdict(*answers) for answers in zip(tried, gas, strict=True)]


def _verdict(tried: Json | CallRefusedError, gas: Json | CallRefusedError) -> PreflightResult:
    if isinstance(tried, CallRefusedError):
        return _refused(tried)
    if isinstance(gas, CallRefusedError):
        return _refused(gas)
    try:
        return PreflightResult(PreflightOutcome.OK, gas=int(gas, 16))
    except (TypeError, ValueError) as error:
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))


def _refused(error: CallRefusedError) -> PreflightResult:
    if not isinstance(error, RevertError):
        # A rate limit, a method that is off: no word of the contract.
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))
    refusal = refusal_of(error.data)
    return PreflightResult(PreflightOutcome.REFUSED, refusal=refusal, reason=str(refusal))


def count(kind: IntentKind, verdict: PreflightResult) -> None:
    """Count one trial: `ok`, `later` and `rejected` by the contract, or `unknown`."""
    SIMULATIONS.labels(kind.value, _result(verdict)).inc()


def _result(verdict: PreflightResult) -> str:
    if verdict.outcome is PreflightOutcome.OK:
        return "ok"
    if verdict.outcome is PreflightOutcome.UNKNOWN or verdict.refusal is None:
        return "unknown"
    return "later" if verdict.refusal.action is Action.WAIT else "rejected"
