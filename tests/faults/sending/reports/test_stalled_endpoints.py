"""One of two endpoints stalls or restarts: its newest block is outdated."""

from collections.abc import Callable
from typing import Any

import pytest

from oracle.errors import TransientError
from oracle.reporting.report_planner import plan_push
from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import AccountContext, StepResult
from tests.support.evm.chain import Chain
from tests.support.harness import Harness
from tests.support.sending.faults import (
    Answer,
    Fault,
    Question,
    drop_response,
    freeze_at_block,
    respond_with,
    return_null,
)
from tests.support.sending.in_flight import list_attempts, list_slots
from tests.support.sending.proxy import EVERY, SEND, Proxy

RECEIPT = "eth_getTransactionReceipt"
Confirm = Callable[[AccountContext, Any], StepResult | None]


@pytest.mark.parametrize("place", [0, 1])
def test_rounds_continue_while_one_endpoint_is_stalled(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], place: int
):
    harness = proxied_harness
    harness.pushed()
    proxies[place].rule(EVERY, freeze_at_block(harness.testbed.chain.block - 1))
    harness.mine(10)
    for _ in range(2):
        harness.pushed()
    assert harness.states() == ["mined"] * 3


def test_endpoint_that_resyncs_does_not_stop_the_daemon(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    harness.pushed()
    # There, the contract is not deployed yet.
    proxies[0].rule(EVERY, freeze_at_block(0))
    harness.pushed()
    assert harness.testbed.round == 2


def test_transient_error_is_raised_if_the_only_endpoint_is_empty(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    harness.pushed()
    harness.period()
    harness.index()
    heads = harness.source.fetch_heads()
    proxies[0].rule(EVERY, freeze_at_block(0))
    proxies[1].rule(EVERY, drop_response())
    with pytest.raises(TransientError, match="lost its chain data"):
        plan_push(harness.reporting, heads)


def test_pushes_resume_after_all_endpoints_were_stalled(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    harness.pushed()
    for proxy in proxies:
        proxy.rule(EVERY, freeze_at_block(harness.testbed.chain.block))
    harness.period()
    harness.tick()
    assert harness.states() == ["mined"]
    for proxy in proxies:
        proxy.heal()
    harness.tick()
    harness.mine()
    assert harness.testbed.round == 2


@pytest.mark.parametrize("place", [0, 1])
def test_receipt_on_a_fork_of_one_endpoint_is_ignored(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], place: int
):
    harness, chain = proxied_harness, proxied_harness.testbed.chain
    # The fork stays above the final block, because two endpoints that differ below it stop the
    # indexer.
    harness.restart(finality=64)
    harness.period()
    harness.tick()
    (sent,) = list_attempts(harness)
    harness.mine()
    assert harness.testbed.round == 1
    freeze_endpoint(proxies[place], chain, sent.signed.tx_hash)
    # The others go on without that block, and no pool has the push.
    chain.rpc("anvil_reorg", 1, [])
    chain.rpc("anvil_dropAllTransactions")
    proxies[1 - place].forget()
    for _ in range(3):
        harness.mine(2)
        harness.tick()
    assert proxies[1 - place].sent == ["0x" + sent.signed.raw.hex()]
    landed = chain.rpc(RECEIPT, sent.signed.tx_hash)
    assert (harness.testbed.round, list_slots(harness)[0].block_hash) == (1, landed["blockHash"])
    assert harness.states()[0] == "mined"


def test_reorged_push_is_resent_despite_a_stalled_endpoint(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness, chain = proxied_harness, proxied_harness.testbed.chain
    harness.pushed()
    (sent,) = list_attempts(harness)
    freeze_endpoint(proxies[0], chain, sent.signed.tx_hash)
    harness.mine(3)
    harness.tick()
    assert harness.states() == ["mined"]

    # Its block is not final yet.
    chain.rpc("anvil_reorg", 4, [])
    chain.rpc("anvil_dropAllTransactions")
    proxies[1].forget()
    actions = [step.action for step in harness.repeat(confirm_transactions)]
    assert (actions[0], harness.states()) == ("reorged", ["live"])
    assert proxies[1].sent == ["0x" + sent.signed.raw.hex()]


def freeze_endpoint(endpoint: Proxy, chain: Chain, sent: str) -> None:
    """Let an endpoint show the current blocks and this transaction's current state forever."""
    receipt = chain.rpc(RECEIPT, sent)
    head = chain.block
    blocks = {
        hex(number): chain.rpc("eth_getBlockByNumber", hex(number), False)
        for number in range(head + 1)
    }
    named = {"latest": blocks[hex(head)], "pending": blocks[hex(head)]}

    def block(request: Question, response: Answer) -> Answer:
        tag = request["params"][0]
        of_tag = response.get("result") if tag in {"safe", "finalized"} else None
        return {**response, "result": of_tag or {**blocks, **named}.get(tag)}

    endpoint.rule("eth_blockNumber", respond_with(hex(head)))
    endpoint.rule("eth_getBlockByNumber", Fault(answer=block))
    endpoint.rule(
        RECEIPT, respond_with(receipt), when=lambda request: request["params"][0] == sent
    )
    endpoint.rule(RECEIPT, return_null())
    endpoint.rule(SEND, respond_with(sent))
