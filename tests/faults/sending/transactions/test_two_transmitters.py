"""Two transmitters of one quorum on a fast chain: neither pays for what the other has sent."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import EXECUTE_KICK
from oracle.txmgr.context import TransmitterRank
from tests.integration.evm.test_kickout_on_chain import fill_bad_pool, standing
from tests.support.evm.chain import Chain
from tests.support.harness import Harness, OracleTestbed, run_next_step
from tests.support.sending.faults import Fault, Question
from tests.support.sending.proxy import run_proxy
from tests.support.sending.reporters import create_second_transmitter, run_reporter_group
from tests.support.txmgr.stores import NewStore

# A period is three blocks; a head start in seconds alone ends with the next block.
BLOCK_SECONDS = 20
# The number of rounds, the maximum blocks until they land, and the maximum for one kickout.
ROUNDS, MOST_BLOCKS, BLOCKS_OF_A_KICKOUT = 10, 200, 60
# Blocks for a call to be noticed, signed and mined, if every second check is one block late.
BLOCKS_AHEAD = 5


@pytest.fixture
def two_transmitters(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[tuple[Harness, Harness]]:
    """Yield two transmitters, whose endpoint's pending block is the newest one, as is usual.

    The second leaves the first a head start of one block in seconds, and of more blocks.
    """
    standby = create_second_transmitter(testbed, tmp_path)
    with (
        run_proxy(testbed.chain.url) as blind,
        new_sqlite_store() as first_store,
        new_sqlite_store() as second_store,
        run_reporter_group(testbed, [first_store, second_store], tmp_path, standby) as opened,
    ):
        blind.rule("eth_call", Fault(ask=_replace_pending_by_latest))
        first, second = (reporter.harness for reporter in opened.reporters)
        for harness in (first, second):
            harness.restart(urls=[blind.url])
        second.context = replace(
            second.context, rank=TransmitterRank(True, BLOCK_SECONDS, BLOCKS_AHEAD)
        )
        yield first, second


def test_two_transmitters_on_a_fast_chain_never_both_pay_for_a_round(
    two_transmitters: tuple[Harness, Harness],
):
    testbed, chance = two_transmitters[0].testbed, random.Random(1)  # noqa: S311  the same luck each time
    began, round_before = testbed.chain.block, testbed.round
    while testbed.round < round_before + ROUNDS:
        assert testbed.chain.block < began + MOST_BLOCKS, f"round {testbed.round}"
        for harness in chance.sample(two_transmitters, len(two_transmitters)):
            # Otherwise the check is one block late.
            if chance.random() < 0.6:
                harness.tick()
        mine_next_block(testbed.chain)
    assert list_reverted_calls(two_transmitters, began) == []


def test_second_transmitter_waits_for_a_late_push_of_the_first(
    two_transmitters: tuple[Harness, Harness],
):
    first, second = two_transmitters
    chain, began = first.testbed.chain, first.testbed.chain.block
    first.period()
    for harness in (first, second, first):
        harness.index()
        harness.repeat(plan_push)
    # The first transmitter is three blocks late, and its push one more.
    for _ in range(3):
        mine_next_block(chain)
        second.tick()
    assert second.states() == ["planned"]
    first.tick()
    second.tick()
    mine_next_block(chain)
    for harness in (first, second):
        harness.tick()
    assert (first.testbed.round, second.states()) == (1, ["superseded"])
    assert list_reverted_calls(two_transmitters, began) == []


def test_kickout_is_executed_by_one_of_two_transmitters(
    two_transmitters: tuple[Harness, Harness],
):
    first, second = two_transmitters
    chain, began = first.testbed.chain, first.testbed.chain.block
    fill_bad_pool(first)
    for _ in range(BLOCKS_OF_A_KICKOUT):
        if standing(first).name == "KICKED_OUT":
            break
        # Both check every block, the second one first, before the first has sent anything.
        for harness in (second, first):
            harness.tick()
        mine_next_block(chain)
    assert standing(first).name == "KICKED_OUT"
    for harness in (second, first):
        harness.tick()
    mine_next_block(chain)
    assert list_reverted_calls(two_transmitters, began) == []
    assert {intent.state.value for intent in second.intents(EXECUTE_KICK)} <= {"superseded"}


def test_second_transmitter_sends_a_report_that_the_first_missed(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
):
    standby = create_second_transmitter(testbed, tmp_path)
    with (
        new_sqlite_store() as first_store,
        new_sqlite_store() as second_store,
        run_reporter_group(testbed, [first_store, second_store], tmp_path, standby) as opened,
    ):
        first, second = (reporter.harness for reporter in opened.reporters)
        second.context = replace(second.context, rank=TransmitterRank(True, 1, BLOCKS_AHEAD))
        first.period()
        # The first signs, and sends nothing.
        for harness in (first, second, first):
            harness.index()
            harness.repeat(plan_push)
        second.tick()
        for _ in range(BLOCKS_AHEAD):
            assert testbed.round == 0
            second.mine()
            second.tick()
        second.mine()
        assert testbed.round == 1


def test_first_transmitter_yields_to_a_pending_push_of_another(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
):
    standby = create_second_transmitter(testbed, tmp_path)
    with (
        new_sqlite_store() as first_store,
        new_sqlite_store() as second_store,
        run_reporter_group(testbed, [first_store, second_store], tmp_path, standby) as opened,
    ):
        first, second = (reporter.harness for reporter in opened.reporters)
        first.period()
        for harness in (first, second, first):
            harness.index()
            harness.repeat(plan_push)
        second.repeat(run_next_step)
        # It was down until the second transmitter sent the call.
        first.repeat(run_next_step)
        (push,) = first.intents()
        assert (push.state.value, push.error_class) == ("planned", "yielded")
        first.mine()
        first.tick()
        assert (first.states(), testbed.round) == (["superseded"], 1)


def mine_next_block(chain: Chain) -> None:
    """Mine the next block of a chain whose periods have three blocks."""
    chain.later(BLOCK_SECONDS)
    chain.mine()


def list_reverted_calls(
    two_transmitters: tuple[Harness, Harness], began: int
) -> list[tuple[int, str]]:
    """Return the block and selector of each reverted call since block `began`."""
    chain = two_transmitters[0].testbed.chain
    failed_calls = []
    senders = {harness.context.account.address for harness in two_transmitters}
    for number in range(began + 1, chain.block + 1):
        for transaction in chain.rpc("eth_getBlockByNumber", hex(number), True)["transactions"]:
            receipt = chain.rpc("eth_getTransactionReceipt", transaction["hash"])
            if transaction["from"] in senders and receipt["status"] != "0x1":
                failed_calls.append((number, transaction["input"][:10]))
    return failed_calls


def _replace_pending_by_latest(question: Question) -> Question:
    call, at = question["params"]
    return {**question, "params": [call, "latest" if at == "pending" else at]}
