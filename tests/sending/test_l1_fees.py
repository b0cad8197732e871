"""What a rollup took for the data of a transaction counts as spent, as its receipt tells it."""

from dataclasses import replace

import pytest

from oracle.errors import TransientError
from oracle.publisher.l1_fees import l1_fee_in
from oracle.publisher.receipts import look_for
from oracle.services.outbox_census import OutboxCensus
from oracle.store.outbox_rows import IntentKind
from tests.office import CAPS, Office
from tests.sending.at_sea import GWEI, attempts, dear_blocks, slots
from tests.sending.faults import Answer, Fault, Question
from tests.sending.proxy import Proxy

L1_FEE = 7 * 10**15
RECEIPT = "eth_getTransactionReceipt"


def of_a_rollup(proxies: tuple[Proxy, Proxy], **told: str) -> None:
    """Receipts say more than Anvil does."""

    def answer(_asked: Question, given: Answer) -> Answer:
        receipt = given.get("result")
        return given if receipt is None else {**given, "result": {**receipt, **told}}

    for proxy in proxies:
        proxy.rule(RECEIPT, Fault(answer=answer))


def gas_paid(office: Office) -> int:
    (slot,) = slots(office)
    return (slot.gas_used or 0) * (slot.gas_price_wei or 0)


def test_what_was_taken_for_data_is_spent_in_budgets_and_metrics(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    of_a_rollup(proxies, l1Fee=hex(L1_FEE))
    dear_blocks(office, GWEI)
    office.pushed()
    assert gas_paid(office) > 0
    account = office.desk.account
    with office.store.reading() as unit:
        assert unit.outbox.slots.committed_since(account, 0) == gas_paid(office) + L1_FEE

    office.until_final()
    with office.store.reading() as unit:
        assert unit.outbox.slots.gas_spent()[1] == gas_paid(office) + L1_FEE
    figures = OutboxCensus().count(office.store, office.desk.stamp.at)
    assert figures.totals.wei["push"] == gas_paid(office) + L1_FEE


def test_a_day_that_data_has_used_up_is_used_up(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    office.restart(caps=replace(CAPS, cost_per_day=L1_FEE - 1))
    of_a_rollup(proxies, l1Fee=hex(L1_FEE))
    office.pushed()
    office.period()
    office.tick()
    waiting = office.intents(IntentKind.PUSH)[-1]
    assert (waiting.state.value, waiting.error_class) == ("planned", "day_cap")


def test_what_a_reorg_took_back_was_not_paid(proxied_office: Office, proxies: tuple[Proxy, Proxy]):
    office = proxied_office
    of_a_rollup(proxies, l1Fee=hex(L1_FEE))
    office.pushed()
    (slot,) = slots(office)
    with office.desk.writing() as unit:
        unit.outbox.slots.unmined(slot, office.desk.stamp)
        signed = attempts(office)[0].signed
        assert unit.outbox.slots.cost_of(slot) == signed.gas_limit * signed.max_fee_wei


def test_gas_for_data_that_is_part_of_the_gas_is_not_counted_twice():
    assert l1_fee_in({"gasUsed": "0x100", "gasUsedForL1": "0x80"}) == 0
    assert l1_fee_in({"l1Fee": None}) == 0
    assert l1_fee_in({"l1Fee": "0x0"}) == 0


@pytest.mark.parametrize("nonsense", ["-0x1", hex(10**30), "much"])
def test_a_fee_that_no_chain_takes_makes_a_receipt_no_answer(
    proxied_office: Office, proxies: tuple[Proxy, Proxy], nonsense: str
):
    office = proxied_office
    office.pushed()
    of_a_rollup(proxies, l1Fee=nonsense)
    with pytest.raises(TransientError, match="something else than receipts"):
        look_for(office.desk.publisher.lines, [attempts(office)[0].signed.tx_hash])
