"""Cases 10 and 65: a header chain is believed if two endpoints reach the same block."""

from pathlib import Path

import pytest

from devnet.fakechain.block_json import Block, Tx
from devnet.fakechain.faults import block_faults, transport_faults
from devnet.fakechain.tree import get_branch
from tests.support.chain.network_logs import NETWORK
from tests.support.ingest.endpoints import read_metric
from tests.support.ingest.event_encoding import ANYBODY, encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY
from tests.support.ingest.proofs import FOREIGN, Site, add_provable_blocks
from tests.support.ingest.reading import add_fault

WITNESSED = "oracle_witnessed_windows_total"


@pytest.fixture
def site(fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    return Site(fake_chain, tmp_path, capsys)


def mine_forged_blocks(fake_chain: FakeChain, at: Block, *, blocks: int) -> Block:
    """Mine `blocks` valid blocks of another fork from this block on, without our logs."""
    last = fake_chain.tree.mine([FOREIGN], at.get_ancestor())
    for _ in range(blocks - 1):
        last = fake_chain.tree.mine([FOREIGN], last)
    return last


@pytest.mark.parametrize("liar", [0, 1], ids=["liar first", "liar second"])
def test_two_conflicting_valid_chains_are_both_rejected(
    fake_chain: FakeChain, site: Site, liar: int
):
    honest_blocks = add_provable_blocks(fake_chain, 40)
    honest = fake_chain.head
    own = mine_forged_blocks(
        fake_chain, honest_blocks[10], blocks=honest.number - honest_blocks[10].number + 1
    )
    fake_chain.providers[liar].head = own

    outcomes = [site.once(0, 1) for _ in range(2)]
    _, status_output = site.tell("status")

    assert {code for code, _ in outcomes} == {1}
    assert len(set(outcomes)) == 1
    assert "no second endpoint says the same" in outcomes[0][1]
    for head in (own, honest):
        at = next(
            block for block in get_branch(head) if f"block {block.number} is" in outcomes[0][1]
        )
        assert at.hash in outcomes[0][1]
    assert site.cursor() < honest_blocks[10].number
    assert "REFUSED" in status_output


def test_third_endpoint_decides_between_two_chains(fake_chain: FakeChain, site: Site):
    fake_chain.serve()
    honest_blocks = add_provable_blocks(fake_chain, 40)
    honest = fake_chain.head
    fake_chain.provider.head = mine_forged_blocks(
        fake_chain, honest_blocks[10], blocks=honest.number - honest_blocks[10].number + 1
    )
    fake_chain.tree.last_mined = honest
    refused = site.once(0, 1)

    outcome = site.once(0, 1, 2)

    assert refused[0] == 1
    assert (outcome, site.rows()) == ((0, ""), site.truth())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["liar first", "liar second"])
def test_forged_block_without_descendants_is_detected(
    fake_chain: FakeChain, site: Site, order: tuple[int, int]
):
    """One block in the middle is the liar's, with its own roots and bloom; its child is true."""
    at = add_provable_blocks(fake_chain, 40)[10]
    honest = fake_chain.head
    forged_tx = Tx(ANYBODY, NETWORK, logs=(encode_task_created_log(99_999),))
    own = fake_chain.tree.mine([forged_tx], at.get_ancestor())
    fake_chain.tree.last_mined = honest
    forging_provider = type(fake_chain.provider)(fake_chain.tree, own)
    for fault in (
        block_faults.build_forwarding_fault(forging_provider, for_blocks=(at.number, at.number)),
    ):
        add_fault(fake_chain, fault)

    outcome = site.once(*order)

    assert (outcome, site.rows()) == ((0, ""), site.truth())


def test_history_is_not_final_without_a_second_provider(fake_chain: FakeChain, site: Site):
    add_provable_blocks(fake_chain, 30)
    silent = add_fault(fake_chain, transport_faults.build_http_status_fault(500), 1)
    before = read_metric(WITNESSED, result="unanswered")

    outcome = site.once(0, 1)
    _, status_output = site.tell("status")

    assert outcome[0] == 1
    assert "no second provider confirms" in outcome[1]
    assert "WAITING-WITNESS" in status_output
    assert (site.final(), site.rows()) == (0, site.truth())
    assert read_metric(WITNESSED, result="unanswered") > before

    fake_chain.providers[1].faults.remove(silent)

    assert (site.once(0, 1), site.rows()) == ((0, ""), site.truth())
    assert site.final() == fake_chain.head.number - FINALITY
    assert "WAITING-WITNESS" not in site.tell("status")[1]


def test_rejected_chain_stays_rejected_without_another_endpoint(fake_chain: FakeChain, site: Site):
    honest_blocks = add_provable_blocks(fake_chain, 40)
    honest = fake_chain.head
    fake_chain.provider.head = mine_forged_blocks(
        fake_chain, honest_blocks[10], blocks=honest.number - honest_blocks[10].number + 1
    )
    refused = site.once(0, 1)
    add_fault(fake_chain, transport_faults.build_http_status_fault(500), 1)

    outcome = site.once(0, 1)

    assert outcome == refused
    assert site.cursor() < honest_blocks[10].number
