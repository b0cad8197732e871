"""Simulates a call without sending it: its outcome and gas on the newest block."""

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

# Estimates differ between nodes; one that is more than twice as high as another is checked.
_FAR_APART = 2


class PreflightOutcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    # No endpoint answered, or they contradict each other.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """The combined result of the endpoints; `gas` is an estimate if the call works, else 0."""

    outcome: PreflightOutcome
    gas: int = 0
    refusal: Refusal | None = None
    reason: str = ""


def preflight(lines: PoolView, call: SimulatedCall, refusal_of: RefusalDecoder) -> PreflightResult:
    """Simulate the call on every endpoint.

    The call works if every endpoint that answers reports success, and is refused if all of them
    report a revert. The highest gas estimate counts, unless it is far above another one that
    suffices on every endpoint, so that one absurd estimate blocks no call.
    """
    return _decided(lines, call, [_ask(line, call, refusal_of) for line in lines.all])


def preflight_all(
    lines: PoolView, calls: Sequence[SimulatedCall], refusal_of: RefusalDecoder
) -> list[PreflightResult]:
    """Simulate several calls as `preflight` does, with one batch for each endpoint.

    Each call runs on the newest block as it is and does not see the effects of the others.
    """
    if len(calls) == 1:
        return [preflight(lines, calls[0], refusal_of)]
    by_line = [_ask_all(line, calls, refusal_of) for line in lines.all] if calls else []
    return [
        _decided(lines, call, [verdicts[place] for verdicts in by_line])
        for place, call in enumerate(calls)
    ]


def is_taken_in_pool(lines: PoolView, call: SimulatedCall, refusal_of: RefusalDecoder) -> bool:
    """Return whether a pending call of another transmitter already does what this call would do.

    The pending block of an endpoint shows it. An endpoint without such a block, or one that leaves
    the pool out of it, shows nothing.
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
    """Combine the results of the endpoints, and check the estimates if they are far apart."""
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
    """Return whether the call works with this gas estimate on every endpoint that answers."""
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
        # At the same block: some endpoints would assume the transactions in their pools.
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
        # A rate limit or a disabled method, not a revert of the contract.
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))
    refusal = refusal_of(error.data)
    return PreflightResult(PreflightOutcome.REFUSED, refusal=refusal, reason=str(refusal))


def count(kind: str, verdict: PreflightResult) -> None:
    """Count one simulation: `ok`, `later` and `rejected` by the contract, or `unknown`."""
    SIMULATIONS.labels(kind, _result(verdict)).inc()


def _result(verdict: PreflightResult) -> str:
    if verdict.outcome is PreflightOutcome.OK:
        return "ok"
    if verdict.outcome is PreflightOutcome.UNKNOWN or verdict.refusal is None:
        return "unknown"
    return "later" if verdict.refusal.action is Action.WAIT else "rejected"
