"""One endpoint returns a false state of the oracle contract."""

from collections.abc import Callable

import pytest

from oracle.bindings.codec import encode_call
from oracle.bindings.qos_roots import CONTRACT
from oracle.telemetry.rpc_metrics import INCONSISTENT
from tests.support.harness import Harness
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
