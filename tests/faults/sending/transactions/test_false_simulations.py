"""An endpoint reports false outcomes of simulated calls: a revert, or a success."""

import pytest

from oracle.bindings.codec import get_errors_by_selector
from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.qos_roots import CONTRACT
from oracle.daemon.sending_jobs import update_pause_reasons
from oracle.domain.health import Condition
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import EXECUTE_KICK
from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.call_registry import SimpleCallKind
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult
from tests.faults.sending.conftest import OpenProxy
from tests.integration.evm.test_kickout_on_chain import accuse_node_two, pass_veto_delay
from tests.support.harness import Harness, create_sending_jobs
from tests.support.sending.faults import Answer, Fault, Question, drop_request, respond_with
from tests.support.sending.in_flight import get_only_intent
from tests.support.sending.proxy import SEND, Proxy

_CALL, _ESTIMATE = "eth_call", "eth_estimateGas"


def encode_error(name: str, *arguments: int) -> str:
    """Return the output of a revert with an error of the contract."""
    selector_by_name = {
        error_name: selector
        for selector, (error_name, _) in get_errors_by_selector(CONTRACT).items()
    }
    return selector_by_name[name] + "".join(f"{argument:064x}" for argument in arguments)


def return_revert(output: str | None = None) -> Fault:
    """Return a fault that reports a revert, with its output if there is one."""

    def answer(request: Question, _: Answer) -> Answer:
        error: dict[str, object] = {"code": 3, "message": "execution reverted"}
        if output is not None:
            error["data"] = output
        return {"jsonrpc": "2.0", "id": request["id"], "error": error}

    return Fault(forwards=False, answer=answer)


# What the liar falsely reports, and for which method.
FALSE_REVERTS = (
    (_CALL, return_revert()),
    (_ESTIMATE, return_revert()),
    # The daemon would end the call, or wait for ever.
    (_CALL, return_revert(encode_error("WrongRound", 7, 1))),
    (_CALL, return_revert(encode_error("TooSoon", 2**250))),
)


def is_push(harness: Harness, request: Question) -> bool:
    """Return whether this request simulates a push, rather than reads a view."""
    return bool(request["params"][0].get("from") == harness.testbed.transmitter)


def find_blocked_reason(harness: Harness) -> str | None:
    """Return the detail of the condition that `/readyz` reports, or None."""
    jobs = create_sending_jobs(harness)
    update_pause_reasons(jobs.senders, jobs.health)
    findings = jobs.health.build_report().findings
    details = {finding.condition: finding.detail for finding in findings}
    return details.get(Condition.SIMULATION_BLOCKED)


def count_false_simulations(proxy: Proxy) -> float:
    labels = {"endpoint": proxy.url, "check": "simulation"}
    return REGISTRY.get_sample_value("oracle_endpoint_inconsistent_total", labels) or 0.0


@pytest.mark.parametrize("position", [0, 2])
def test_false_reverts_of_one_endpoint_do_not_stop_pushes(
    sqlite_harness: Harness, open_proxy: OpenProxy, position: int
):
    harness = sqlite_harness
    endpoints = [open_proxy() for _ in range(3)]
    liar = endpoints[position]
    for method, false_revert in FALSE_REVERTS:
        liar.heal()
        # The liar reverts views as well, and lies from its first response to a new process.
        liar.rule(method, false_revert)
        if method == _CALL:
            harness.restart(urls=[endpoint.url for endpoint in endpoints])
        harness.pushed()

    assert find_blocked_reason(harness) is None
    assert [count_false_simulations(endpoint) > 0 for endpoint in endpoints] == [
        endpoint is liar for endpoint in endpoints
    ]


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("honest_fault", [None, drop_request()], ids=["answers", "is silent"])
def test_revert_without_a_majority_delays_the_push(
    proxied_harness: Harness,
    proxies: tuple[Proxy, Proxy],
    position: int,
    honest_fault: Fault | None,
):
    harness, liar, honest = proxied_harness, proxies[position], proxies[1 - position]
    is_simulation = lambda request: is_push(harness, request)  # noqa: E731
    for method, false_revert in ((_CALL, FALSE_REVERTS[2][1]), (_ESTIMATE, FALSE_REVERTS[3][1])):
        liar.rule(method, false_revert, when=is_simulation)
        if honest_fault is not None:
            honest.rule(method, honest_fault, when=is_simulation)
    harness.period()
    harness.tick()
    assert find_blocked_reason(harness) is None
    harness.testbed.chain.later(125)
    harness.testbed.chain.mine()
    harness.tick()

    # Neither ended by the false reason nor sent, also by the next process.
    reason = find_blocked_reason(harness)
    assert reason is not None
    assert f"{liar.url}: WrongRound(" in reason
    harness.restart()
    harness.mine()
    harness.tick()
    assert (harness.states(), honest.count(SEND) + liar.count(SEND)) == (["planned"], 0)

    liar.heal()
    honest.heal()
    harness.mine()
    harness.tick()
    assert (get_only_intent(harness).state.value, find_blocked_reason(harness)) == ("live", None)


@pytest.mark.parametrize("honest_count", [1, 2])
def test_reverting_call_is_not_sent_if_one_endpoint_simulates_success(
    sqlite_harness: Harness, open_proxy: OpenProxy, honest_count: int
):
    harness = sqlite_harness
    testbed, chain = harness.testbed, harness.testbed.chain
    admin = testbed.network.admin
    liar, *honest = endpoints = [open_proxy() for _ in range(1 + honest_count)]
    harness.restart(urls=[endpoint.url for endpoint in endpoints])
    chain.send(testbed.oracle.functions.setPauser(admin), sender=admin)
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    chain.send(testbed.oracle.functions.pauseFor(300), sender=admin)
    liar.rule(_CALL, respond_with("0x"), when=lambda request: is_push(harness, request))
    liar.rule(_ESTIMATE, respond_with(hex(100_000)))
    for _ in range(2):
        harness.mine()
        harness.tick()

    assert (testbed.round, {endpoint.count(SEND) for endpoint in endpoints}) == (0, {0})
    if len(honest) > 1:
        assert get_only_intent(harness).error_class == "Paused"


def test_false_ready_time_delays_a_call_by_at_most_one_hour():
    refusal = decode_refusal(encode_error("BucketEmpty", 2**250))
    result = PreflightResult(PreflightOutcome.REFUSED, refusal=refusal)
    assert SimpleCallKind("noop").decide_on_refusal(result, now=100).not_before == 100 + 3600


def test_distant_ready_time_delays_a_kickout_by_one_hour(
    sqlite_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = sqlite_harness
    accuse_node_two(harness)
    pass_veto_delay(harness)
    harness.restart(urls=[endpoint_proxy.url for endpoint_proxy in proxies])
    for endpoint_proxy in proxies:
        false_revert = return_revert(encode_error("TooSoon", 2**40))
        endpoint_proxy.rule(_CALL, false_revert, when=lambda request: is_push(harness, request))

    harness.index()
    now = harness.testbed.chain.time
    harness.repeat(plan_kickout_call)

    (execution,) = harness.intents(EXECUTE_KICK)
    assert execution.request.not_before == now + 3600
