"""Tries a call without sending it: what it would do on the newest block, and for how much gas."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError, RevertError
from oracle.telemetry.outbox_metrics import SIMULATIONS
from oracle.txmgr.client.fee_quote import gas_limit, least_gas
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.client.refusal import Action, Refusal, RefusalDecoder

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


def preflight(lines: PoolView, call: SimulatedCall, refusal_of: RefusalDecoder) -> PreflightResult:
    """Ask every endpoint what the call would do now.

    It works when every endpoint that answers says so, and is refused when all of them do. Of
    their estimates the highest counts, unless it is far above another which is enough on every
    endpoint: a single one that tells an absurd figure keeps no call waiting.
    """
    return _decided(lines, call, [_ask(line, call, refusal_of) for line in lines.all])


def preflight_all(
    lines: PoolView, calls: Sequence[SimulatedCall], refusal_of: RefusalDecoder
) -> list[PreflightResult]:
    """Try several calls as `preflight` does each, by one batch for each endpoint.

    Each is tried on the newest block as it is: none sees what the others would do.
    """
    if len(calls) == 1:
        return [preflight(lines, calls[0], refusal_of)]
    by_line = [_ask_all(line, calls, refusal_of) for line in lines.all] if calls else []
    return [
        _decided(lines, call, [verdicts[place] for verdicts in by_line])
        for place, call in enumerate(calls)
    ]


def is_taken_in_pool(lines: PoolView, call: SimulatedCall, refusal_of: RefusalDecoder) -> bool:
    """Tell whether another's call does in the next block what this one is to do, as far as known.

    So says an endpoint whose pending block holds what is in its pool. One that has no such block,
    or leaves the pool out of it, says nothing.
    """
    for line in lines.all:
        try:
            line.ask("eth_call", _asked(call), "pending")
        except RevertError as error:
            if refusal_of(error.data).is_taken:
                return True
        except TransientError:
            continue
    return False


def _decided(
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
    works = 0
    for line in lines.all:
        try:
            line.ask("eth_call", {**_asked(call), "gas": hex(limit)}, "latest")
        except CallRefusedError:
            return False
        except TransientError:
            continue
        works += 1
    return works > 0


def _asked(call: SimulatedCall) -> dict[str, str]:
    return {"from": call.sender, "to": call.to, "data": call.calldata, "value": "0x0"}


def _ask(line: EndpointCaller, call: SimulatedCall, refusal_of: RefusalDecoder) -> PreflightResult:
    asked = _asked(call)
    try:
        line.ask("eth_call", asked, "latest")
        # Of the same block: some endpoints would take what is in their pools for granted.
        return PreflightResult(
            PreflightOutcome.OK, gas=int(line.ask("eth_estimateGas", asked, "latest"), 16)
        )
    except CallRefusedError as error:
        return _refused(error, refusal_of)
    except (TransientError, TypeError, ValueError) as error:
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))


def _ask_all(
    line: EndpointCaller, calls: Sequence[SimulatedCall], refusal_of: RefusalDecoder
) -> list[PreflightResult]:
    given = [(_asked(call), "latest") for call in calls]
    try:
        tried = line.ask_each([("eth_call", call) for call in given])
        gas = line.ask_each([("eth_estimateGas", call) for call in given])
    except TransientError as error:
        return [PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))] * len(calls)
    return [_verdict(*answers, refusal_of) for answers in zip(tried, gas, strict=True)]


def _verdict(
    tried: Json | CallRefusedError, gas: Json | CallRefusedError, refusal_of: RefusalDecoder
) -> PreflightResult:
    if isinstance(tried, CallRefusedError):
        return _refused(tried, refusal_of)
    if isinstance(gas, CallRefusedError):
        return _refused(gas, refusal_of)
    try:
        return PreflightResult(PreflightOutcome.OK, gas=int(gas, 16))
    except (TypeError, ValueError) as error:
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))


def _refused(error: CallRefusedError, refusal_of: RefusalDecoder) -> PreflightResult:
    if not isinstance(error, RevertError):
        # A rate limit, a method that is off: no word of the contract.
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))
    refusal = refusal_of(error.data)
    return PreflightResult(PreflightOutcome.REFUSED, refusal=refusal, reason=str(refusal))


def count(kind: str, verdict: PreflightResult) -> None:
    """Count one trial: `ok`, `later` and `rejected` by the contract, or `unknown`."""
    SIMULATIONS.labels(kind, _result(verdict)).inc()


def _result(verdict: PreflightResult) -> str:
    if verdict.outcome is PreflightOutcome.OK:
        return "ok"
    if verdict.outcome is PreflightOutcome.UNKNOWN or verdict.refusal is None:
        return "unknown"
    return "later" if verdict.refusal.action is Action.WAIT else "rejected"
