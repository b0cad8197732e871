"""A transaction that is not mined is sent at growing intervals, and logged when it changes."""

import pytest

from oracle.txmgr.confirmer import confirm_transactions
from oracle.txmgr.context import SendSettings, StepResult
from tests.support.harness import Harness
from tests.support.sending.faults import return_error
from tests.support.sending.in_flight import (
    GWEI,
    list_attempts,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.proxy import SEND, Proxy

Proxies = tuple[Proxy, Proxy]

# No new signature: the stored bytes have to wait.
ONE_ATTEMPT = SendSettings(max_attempts=1)
BLOCKS = 32


def poll_each_block(harness: Harness, blocks: int) -> tuple[list[int], list[StepResult]]:
    """Poll once per block, as the daemon does; return the blocks with a send, and the results."""
    sent_after, steps = [], []
    sends = list_attempts(harness)[0].sends
    for block in range(1, blocks + 1):
        mine_expensive_blocks(harness, 5 * GWEI)
        step = confirm_transactions(harness.context, harness.source.fetch_heads())
        steps += [] if step is None else [step]
        if list_attempts(harness)[0].sends > sends:
            sent_after.append(block)
            sends = list_attempts(harness)[0].sends
    return sent_after, steps


@pytest.mark.parametrize(
    ("answer", "error_class"),
    [
        # Counts as sent, as before: no change.
        ("already known", None),
        ("nonce too low", "nonce_too_low"),
        ("transaction underpriced", "underpriced"),
        ("replacement transaction underpriced", "underpriced_replacement"),
        ("txpool is full", "pool"),
        ("an unknown error", "unknown"),
    ],
)
def test_transaction_with_unchanged_response_is_resent_less_often(
    proxied_harness: Harness, proxies: Proxies, answer: str, error_class: str | None
):
    harness = proxied_harness
    send_unmined_push(harness, ONE_ATTEMPT)
    for proxy in proxies:
        proxy.rule(SEND, return_error(answer))
    sent_after, steps = poll_each_block(harness, BLOCKS)

    # A refusal after an acceptance is a change: it is logged, and the shortest wait follows.
    is_refused = error_class is not None
    assert sent_after == ([2, 4, 8, 16, 24, 32] if is_refused else [2, 6, 14, 22, 30])
    assert len(steps) == int(is_refused), steps
    assert list_attempts(harness)[0].last_error_class == error_class
    assert [proxy.count(SEND) for proxy in proxies] == 2 * [1 + len(sent_after)]


def drop_before_each_block(harness: Harness, blocks: int) -> list[int]:
    """Let the pool drop the transaction before each block; return the blocks with a send."""
    chain, sent_after = harness.testbed.chain, []
    for block in range(1, blocks + 1):
        (attempt,) = list_attempts(harness)
        chain.rpc("anvil_dropTransaction", attempt.signed.tx_hash)
        mine_expensive_blocks(harness, GWEI)
        assert confirm_transactions(harness.context, harness.source.fetch_heads()) is None
        if list_attempts(harness)[0].sends > attempt.sends:
            sent_after.append(block)
    return sent_after


def test_repeatedly_dropped_transaction_is_resent_less_often(harness: Harness):
    send_unmined_push(harness, ONE_ATTEMPT)
    assert drop_before_each_block(harness, 30) == [2, 6, 14, 22, 30]


def test_changed_send_response_resets_the_resend_interval(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    send_unmined_push(harness, ONE_ATTEMPT)
    for proxy in proxies:
        proxy.rule(SEND, return_error("txpool is full"))
    assert poll_each_block(harness, 17)[0] == [2, 4, 8, 16]
    for proxy in proxies:
        proxy.heal()
        proxy.rule(SEND, return_error("transaction underpriced"))
    sent_after, steps = poll_each_block(harness, 21)
    assert sent_after == [7, 9, 13, 21]
    (step,) = steps
    assert "underpriced" in step.detail


def test_transaction_removed_by_a_reorg_is_resent_immediately(harness: Harness):
    send_unmined_push(harness, ONE_ATTEMPT)
    assert drop_before_each_block(harness, 14) == [2, 6, 14]
    chain = harness.testbed.chain
    sends = list_attempts(harness)[0].sends
    snapshot = chain.rpc("evm_snapshot")
    mine_expensive_blocks(harness, GWEI)
    assert confirm_transactions(harness.context, harness.source.fetch_heads()) is not None
    chain.rpc("evm_revert", snapshot)
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    while confirm_transactions(harness.context, harness.source.fetch_heads()) is not None:
        pass
    assert list_attempts(harness)[0].sends == sends + 1
