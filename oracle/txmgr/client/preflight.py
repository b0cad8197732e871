"""Simulates a call on the newest block to find its outcome and gas.

If endpoints disagree, the majority of the witnesses decides, so that no single endpoint can stop
or release a call (docs/explanation/transactions.md#simulations).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.errors import TransientError
from oracle.rpc.client import Json
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.rpc.fanout import EndpointCaller, PoolView
from oracle.rpc.rpc_errors import CallRefusedError, RevertError
from oracle.telemetry.outbox_metrics import SIMULATIONS
from oracle.txmgr.client.fee_quote import add_gas_margin, compute_floor_gas
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.client.refusal import Refusal, RefusalAction, RefusalDecoder

# Maximum ratio of the highest gas estimate to the lowest. If it is larger, the lower one is
# verified, because estimates differ between clients.
_MAX_ESTIMATE_RATIO = 2


class PreflightOutcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    # No endpoint answered, or the answers contradict each other.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """The combined result of all endpoints for a simulated call.

    `gas` is the estimate if the call works, else 0. `is_out_of_gas` is whether the call needs more
    gas than a block has; the outcome is then UNKNOWN.
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

    The call works if more witnesses report success than a revert. It is refused if more witnesses
    report a revert, and enough of them report the same revert. Otherwise the outcome is UNKNOWN.
    The highest gas estimate is used, unless it far exceeds another estimate, and more witnesses
    report that the call works with the other one than that it fails. Thus an absurd estimate of
    one endpoint cannot block a call.
    """
    result_by_endpoint = {
        endpoint: _simulate_call(endpoint, call, decode_refusal) for endpoint in pool_view.callers
    }
    combined_result = _combine_endpoint_results(pool_view, call, result_by_endpoint)
    _record_votes([(combined_result, result_by_endpoint)])
    return combined_result


def preflight_all(
    pool_view: PoolView, calls: Sequence[SimulatedCall], decode_refusal: RefusalDecoder
) -> list[PreflightResult]:
    """Simulate several calls, with one batch request for each endpoint.

    Each call is simulated on the newest block and does not see the effects of the other calls.
    """
    if len(calls) == 1:
        return [preflight(pool_view, calls[0], decode_refusal)]
    results_by_endpoint = (
        {
            endpoint: _simulate_calls(endpoint, calls, decode_refusal)
            for endpoint in pool_view.callers
        }
        if calls
        else {}
    )
    endpoint_votes = []
    for index, call in enumerate(calls):
        result_by_endpoint = {
            endpoint: results[index] for endpoint, results in results_by_endpoint.items()
        }
        endpoint_votes.append(
            (_combine_endpoint_results(pool_view, call, result_by_endpoint), result_by_endpoint)
        )
    _record_votes(endpoint_votes)
    return [common_result for common_result, _ in endpoint_votes]


def is_duplicate_pending(
    pool_view: PoolView, call: SimulatedCall, decode_refusal: RefusalDecoder
) -> bool:
    """Return whether a pending call of another transmitter already does this call's work.

    The call is simulated on the pending block of each endpoint. An endpoint that has no pending
    block, or whose pending block does not include its transaction pool, cannot show a duplicate.
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


def _combine_endpoint_results(
    pool_view: PoolView,
    call: SimulatedCall,
    result_by_endpoint: Mapping[EndpointCaller, PreflightResult],
) -> PreflightResult:
    """Combine the endpoints' results, and check gas estimates that are far apart."""
    results = list(result_by_endpoint.values())
    answered_results = {
        endpoint: result
        for endpoint, result in result_by_endpoint.items()
        if result.outcome is not PreflightOutcome.UNKNOWN
    }
    if not answered_results:
        unknown_result = PreflightResult(PreflightOutcome.UNKNOWN, reason="no endpoint")
        return results[0] if results else unknown_result
    majority_result = _find_majority_result(pool_view.quorum, answered_results)
    if majority_result.outcome is not PreflightOutcome.OK:
        return majority_result
    successes = [result for result in results if result.outcome is PreflightOutcome.OK]
    for gas in sorted(result.gas for result in successes):
        if gas * _MAX_ESTIMATE_RATIO >= majority_result.gas:
            break
        if _verify_gas_estimate(pool_view, call, gas):
            return replace(majority_result, gas=gas)
    return majority_result


def _find_majority_result(
    quorum: WitnessQuorum, result_by_endpoint: Mapping[EndpointCaller, PreflightResult]
) -> PreflightResult:
    """Return the result that most witnesses report, or UNKNOWN without a majority."""
    successes = [
        result for result in result_by_endpoint.values() if result.outcome is PreflightOutcome.OK
    ]
    refusal_by_endpoint = {
        endpoint.name: result
        for endpoint, result in result_by_endpoint.items()
        if result.outcome is PreflightOutcome.REFUSED
    }
    success_count = quorum.count_witnesses(
        endpoint.name
        for endpoint, result in result_by_endpoint.items()
        if result.outcome is PreflightOutcome.OK
    )
    refusal_count = quorum.count_witnesses(refusal_by_endpoint)
    if success_count > refusal_count:
        return max(successes, key=lambda result: result.gas)
    if success_count == refusal_count:
        refusals_text = "; ".join(
            f"{endpoint.name}: {result.reason or 'the call works'}"
            for endpoint, result in result_by_endpoint.items()
        )
        return PreflightResult(
            PreflightOutcome.UNKNOWN, reason=f"the endpoints disagree: {refusals_text}"
        )
    return _find_majority_refusal(quorum, refusal_by_endpoint)


def _find_majority_refusal(
    quorum: WitnessQuorum, refusal_by_endpoint: Mapping[str, PreflightResult]
) -> PreflightResult:
    """Return the revert that enough witnesses report, or UNKNOWN without one.

    A revert may end a call for good, so a single endpoint must not determine its reason. An
    endpoint that returns no reason counts for every reason. If endpoints return the same reason
    with different times, the shortest wait is used.
    """
    refusals_text = "; ".join(
        f"{name}: {result.reason}" for name, result in refusal_by_endpoint.items()
    )
    if not quorum.is_reached_by(refusal_by_endpoint):
        reason = f"no second {quorum.witness_kind} confirms the revert: {refusals_text}"
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=reason)
    results_by_reason: dict[str, dict[str, PreflightResult]] = defaultdict(dict)
    for name, result in refusal_by_endpoint.items():
        results_by_reason[result.refusal.name if result.refusal else ""][name] = result
    unexplained_refusals = results_by_reason.pop("", {})
    if not results_by_reason:
        return next(iter(unexplained_refusals.values()))
    refusal_groups = sorted(results_by_reason.values(), key=quorum.count_witnesses)
    is_tied = len(refusal_groups) > 1 and quorum.count_witnesses(
        refusal_groups[-2]
    ) == quorum.count_witnesses(refusal_groups[-1])
    if is_tied:
        reason = f"the endpoints disagree on the revert: {refusals_text}"
        return PreflightResult(PreflightOutcome.UNKNOWN, reason=reason)
    return min(
        refusal_groups[-1].values(),
        key=lambda result: (result.refusal.not_before if result.refusal else None) or 0,
    )


def _record_votes(
    votes: Sequence[tuple[PreflightResult, Mapping[EndpointCaller, PreflightResult]]],
) -> None:
    """Record for each endpoint whether most witnesses contradict any of its results.

    Each endpoint is recorded once.
    """
    outvoted_endpoints: dict[EndpointCaller, bool] = {}
    for common_result, result_by_endpoint in votes:
        for endpoint, result in result_by_endpoint.items():
            if PreflightOutcome.UNKNOWN not in {common_result.outcome, result.outcome}:
                is_outvoted = result.outcome is not common_result.outcome
                outvoted_endpoints[endpoint] = (
                    outvoted_endpoints.get(endpoint, False) or is_outvoted
                )
    for endpoint, is_outvoted in outvoted_endpoints.items():
        endpoint.endpoint.record_simulation_vote(is_outvoted=is_outvoted)


def _verify_gas_estimate(pool_view: PoolView, call: SimulatedCall, gas: int) -> bool:
    """Return whether the call works with this gas for most witnesses that answer."""
    gas_with_margin = max(add_gas_margin(gas), compute_floor_gas(call.calldata))
    refusing_endpoints: list[str] = []
    successful_endpoints: list[str] = []
    for endpoint in pool_view.callers:
        try:
            endpoint.request("eth_call", {**call.params, "gas": hex(gas_with_margin)}, "latest")
        except CallRefusedError:
            refusing_endpoints.append(endpoint.name)
        except TransientError:
            continue
        else:
            successful_endpoints.append(endpoint.name)
    quorum = pool_view.quorum
    return quorum.count_witnesses(successful_endpoints) > quorum.count_witnesses(
        refusing_endpoints
    )


def _simulate_call(
    endpoint: EndpointCaller, call: SimulatedCall, decode_refusal: RefusalDecoder
) -> PreflightResult:
    try:
        endpoint.request("eth_call", call.params, "latest")
        # "latest" is stated explicitly, because some endpoints otherwise estimate on the pending
        # block.
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
        _decode_simulation_responses(*answers, decode_refusal)
        for answers in zip(call_answers, gas_answers, strict=True)
    ]


def _decode_simulation_responses(
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
        # The endpoint refused the request, for example because of a rate limit. The contract did
        # not revert.
        return PreflightResult(
            PreflightOutcome.UNKNOWN, reason=str(error), is_out_of_gas=error.is_out_of_gas
        )
    refusal = decode_refusal(error.data)
    return PreflightResult(PreflightOutcome.REFUSED, refusal=refusal, reason=str(refusal))


def count_preflight_result(kind: str, result: PreflightResult) -> None:
    """Count a simulation in the metric of its outcome: `ok`, `later`, `rejected` or `unknown`."""
    SIMULATIONS.labels(kind, _get_outcome_label(result)).inc()


def _get_outcome_label(result: PreflightResult) -> str:
    if result.outcome is PreflightOutcome.OK:
        return "ok"
    if result.outcome is PreflightOutcome.UNKNOWN or result.refusal is None:
        return "unknown"
    return "later" if result.refusal.action is RefusalAction.WAIT else "rejected"
