"""One endpoint returns a false state of the oracle contract."""

from collections.abc import Callable

import pytest

from oracle.bindings.codec import encode_call
from oracle.bindings.qos_roots import CONTRACT
from oracle.domain.health import Condition
from oracle.telemetry.rpc_metrics import INCONSISTENT
from tests.support.harness import Harness, create_sending_jobs
from tests.support.sending.faults import Answer, Fault, Question
from tests.support.sending.proxy import Proxy

_WORD = slice(2, 66)


def change_first_word(view: str, change: Callable[[int], int]) -> Fault:
    """Return a fault that changes the first word of a view's result."""
    selector = encode_call(CONTRACT, view)[:10]

    def answer(request: Question, response: Answer) -> Answer:
        call = request["params"][0]
        if call["data"][:10] != selector:
            return response
        result = response["result"]
        word = change(int(result[_WORD], 16))
        return {**response, "result": f"0x{word:064x}{result[_WORD.stop :]}"}

    return Fault(answer=answer)


FALSE_STATUSES = {
    "later round": ("head", lambda number: number + 1),
    "earlier round": ("head", lambda number: number - 1),
    "other root": ("lastRoot", lambda root: root ^ 1),
    "other configuration": ("configDigest", lambda digest: digest ^ 1),
    "other rules": ("rulesHash", lambda rules_hash: rules_hash ^ 1),
    "longer interval": ("limits", lambda min_interval: min_interval + 3600),
}


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("falsehood", FALSE_STATUSES)
def test_rounds_continue_despite_false_contract_status(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], falsehood: str, place: int
):
    harness = proxied_harness
    harness.pushed()
    proxies[place].rule("eth_call", change_first_word(*FALSE_STATUSES[falsehood]))
    count = INCONSISTENT.labels(harness.urls[0], "contract")
    count_before = count._value.get()
    harness.pushed()
    harness.pushed()
    assert harness.testbed.round == 3
    # The second endpoint is requested only if the first one contradicts the events.
    assert (count._value.get() > count_before) == (place == 0)


def find_held_reason(harness: Harness) -> str | None:
    """Run the daemon's job once, and return the detail of `HELD`, or None."""
    jobs = create_sending_jobs(harness)
    jobs.advance_reports()
    details = {
        finding.condition: finding.detail for finding in jobs.health.build_report().findings
    }
    return details.get(Condition.HELD)


@pytest.mark.parametrize("falsehood", FALSE_STATUSES)
def test_false_status_of_only_endpoint_is_reported(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], falsehood: str
):
    harness, liar = proxied_harness, proxies[0]
    harness.pushed()
    harness.restart(urls=[liar.url])
    liar.rule("eth_call", change_first_word(*FALSE_STATUSES[falsehood]))
    harness.period()
    harness.tick()
    assert find_held_reason(harness) is None
    for _ in range(2):
        harness.period()
        harness.tick()
    reason = find_held_reason(harness)
    assert reason is not None
    assert "contradicts its indexed events" in reason
    assert liar.url in reason
    assert harness.testbed.round == 1

    liar.heal()
    harness.pushed()
    assert find_held_reason(harness) is None
