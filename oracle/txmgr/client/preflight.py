"""Simulates a call without sending it: its outcome and gas on the newest block."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError, RevertError
from oracle.telemetry.outbox_metrics import SIMULATIONS
from oracle.txmgr.client.fee_quote import add_gas_margin, compute_floor_gas
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.client.refusal import Refusal, RefusalAction, RefusalDecoder

# Estimates differ between nodes; one that is more than twice as high as another is checked.
_MAX_ESTIMATE_RATIO = 2


class PreflightOutcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    # No endpoint answered, or they contradict each other.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """The combined result of the endpoints; `gas` is an estimate if the call works, else 0.

    `is_out_of_gas` means that the call needs more gas than a block has; the outcome is UNKNOWN.
    """

    outcome: PreflightOutcome
    gas: int = 0
    refusal: Refusal | None = None
    reason: str = ""
    is_out_of_gas: bool = False


def preflight(
    pool_view: PoolView, call: SimulatedCall, decode_refusal: RefusalDecoder
) -> PreflightResult:
    """Simulate the call on every endpoint.

    The call works if every endpoint that answers reports success, and is refused if all of them
    report a revert. The highest gas estimate is used, unless it far exceeds another estimate that
    suffices on every endpoint. An absurd estimate then cannot block a call.
    """
    return _combine_results(
        pool_view,
        call,
        [_simulate_call(endpoint, call, decode_refusal) for endpoint in pool_view.callers],
    )


def preflight_all(
    pool_view: PoolView, calls: Sequence[SimulatedCall], decode_refusal: RefusalDecoder
) -> list[PreflightResult]:
    """Simulate several calls as `preflight` does, with one batch for each endpoint.

    Each call runs on the newest block as it is and does not see the effects of the others.
    """
    if len(calls) == 1:
        return [preflight(pool_view, calls[0], decode_refusal)]
    results_by_endpoint = (
        [_simulate_calls(endpoint, calls, decode_refusal) for endpoint in pool_view.callers]
        if calls
        else []
    )
    return [
        _combine_results(
            pool_view, call, [endpoint_results[index] for endpoint_results in results_by_endpoint]
        )
        for index, call in enumerate(calls)
    ]


def is_duplicate_pending(
    pool_view: PoolView, call: SimulatedCall, decode_refusal: RefusalDecoder
) -> bool:
    """Return whether a pending call of another transmitter already does what this call would do.

    The call is simulated on the pending block of each endpoint. Nothing is learned from an
    endpoint that has no pending block, or whose pending block leaves out the pool.
    """
    for endpoint in pool_view.callers:
        try:
            endpoint.request("eth_call", call.params, "pending")
        except RevertError as error:
            if decode_refusal(error.data).is_taken:
                return True
        except TransientError:
            continue
    return False


def _combine_results(
    pool_view: PoolView, call: SimulatedCall, results: Sequence[PreflightResult]
) -> PreflightResult:
    """Combine the results of the endpoints, and check the estimates if they are far apart."""
    common = _find_common_result(results)
    if common.outcome is not PreflightOutcome.OK:
        return common
    for gas in sorted(result.gas for result in results if result.outcome is PreflightOutcome.OK):
        if gas * _MAX_ESTIMATE_RATIO >= common.gas:
            break
        if _verify_gas_estimate(pool_view, call, gas):
            return replace(common, gas=gas)
    return common


def _find_common_result(results: Sequence[PreflightResult]) -> PreflightResult:
    answered = [result for result in results if result.outcome is not PreflightOutcome.UNKNOWN]
    if not answered:
        if results:
            return results[0]
        return PreflightResult(PreflightOutcome.UNKNOWN, reason="no endpoint")
    if len({result.outcome for result in answered}) > 1:
        reasons = "; ".join(result.reason for result in answered if result.reason)
        return PreflightResult(
            PreflightOutcome.UNKNOWN, reason=f"the endpoints disagree: {reasons}"
        )
    return max(answered, key=lambda result: result.gas)


def _verify_gas_estimate(pool_view: PoolView, call: SimulatedCall, gas: int) -> bool:
    """Return whether the call works with this gas estimate on every endpoint that answers."""
    gas_with_margin = max(add_gas_margin(gas), compute_floor_gas(call.calldata))
    success_count = 0
    for endpoint in pool_view.callers:
        try:
            endpoint.request("eth_call", {**call.params, "gas": hex(gas_with_margin)}, "latest")
        except CallRefusedError:
            return False
        except TransientError:
            continue
        success_count += 1
    return success_count > 0


def _simulate_call(
    endpoint: EndpointCaller, call: SimulatedCall, decode_refusal: RefusalDecoder
) -> PreflightResult:
    try:
        endpoint.request("eth_call", call.params, "latest")
        # At the same block: some endpoints would assume the transactions in their pools.
        estimate = endpoint.request("eth_estimateGas", call.params, "latest")
        return PreflightResult(PreflightOutcome.OK, gas=int(estimate, 16))
    except CallRefusedError as error:
        return _build_error_result(error, decode_refusal)
    except (TransientError, TypeError, ValueError) as error:
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))


def _simulate_calls(
    endpoint: EndpointCaller, calls: Sequence[SimulatedCall], decode_refusal: RefusalDecoder
) -> list[PreflightResult]:
    params_list = [(call.params, "latest") for call in calls]
    try:
        call_answers = endpoint.request_all_or_refusals(
            [("eth_call", params) for params in params_list]
        )
        gas_answers = endpoint.request_all_or_refusals(
            [("eth_estimateGas", params) for params in params_list]
        )
    except TransientError as error:
        return [PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))] * len(calls)
    return [
        _decode_answers(*answers, decode_refusal)
        for answers in zip(call_answers, gas_answers, strict=True)
    ]


def _decode_answers(
    call_answer: Json | CallRefusedError,
    gas_answer: Json | CallRefusedError,
    decode_refusal: RefusalDecoder,
) -> PreflightResult:
    if isinstance(call_answer, CallRefusedError):
        return _build_error_result(call_answer, decode_refusal)
    if isinstance(gas_answer, CallRefusedError):
        return _build_error_result(gas_answer, decode_refusal)
    try:
        return PreflightResult(PreflightOutcome.OK, gas=int(gas_answer, 16))
    except (TypeError, ValueError) as error:
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=str(error))


def _build_error_result(
    error: CallRefusedError, decode_refusal: RefusalDecoder
) -> PreflightResult:
    if not isinstance(error, RevertError) or error.is_out_of_gas:
        # A rate limit, a disabled method or too little gas, not a revert of the contract.
        return PreflightResult(
            PreflightOutcome.UNKNOWN, reason=str(error), is_out_of_gas=error.is_out_of_gas
        )
    refusal = decode_refusal(error.data)
    return PreflightResult(PreflightOutcome.REFUSED, refusal=refusal, reason=str(refusal))


def count_preflight(kind: str, result: PreflightResult) -> None:
    """Count one simulation: `ok`, `later` and `rejected` by the contract, or `unknown`."""
    SIMULATIONS.labels(kind, _get_outcome_label(result)).inc()


def _get_outcome_label(result: PreflightResult) -> str:
    if result.outcome is PreflightOutcome.OK:
        return "ok"
    if result.outcome is PreflightOutcome.UNKNOWN or result.refusal is None:
        return "unknown"
    return "later" if result.refusal.action is RefusalAction.WAIT else "rejected"
