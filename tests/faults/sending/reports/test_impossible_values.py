"""Impossible values from the first endpoint stop nothing and are not used."""

import pytest

from tests.support.harness import Harness
from tests.support.sending.faults import Answer, Fault, Question
from tests.support.sending.proxy import Proxy
from tests.support.sending.rounds import land_round, plan_round

HUGE = hex(1 << 80)


@pytest.mark.parametrize(
    ("field", "figures"),
    [
        ("gasUsed", HUGE),
        ("gasUsed", "-0x1"),
        ("effectiveGasPrice", hex(1 << 256)),
        ("effectiveGasPrice", "-0x1"),
        ("blockNumber", HUGE),
        ("l1Fee", "-0x1"),
    ],
)
def test_receipt_with_impossible_values_is_ignored(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], field: str, figures: str
):
    def forged(_: Question, answer: Answer) -> Answer:
        receipt = answer.get("result")
        return answer if receipt is None else {**answer, "result": {**receipt, field: figures}}

    harness = proxied_harness
    proxies[0].rule("eth_getTransactionReceipt", Fault(answer=forged))
    plan_round(harness)
    land_round(harness)
    assert harness.states() == ["mined"]
