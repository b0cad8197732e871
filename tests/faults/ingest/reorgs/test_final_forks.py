"""Cases 4, 5 and 51: a block is final when a second provider shows it, despite forks.

The matrix varies which endpoint is on its own fork, how deep the fork is, whether it is in history
or at the head, and whether a daemon or `run --once` reads it. The first of the three endpoints
reads first.
"""

from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import transport_faults
from devnet.fakechain.tree import get_branch
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import follow_until_idle
from tests.support.ingest.event_encoding import build_transaction, encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.head_faults import build_invented_head_fault
from tests.support.ingest.indexer import FINALITY, Indexer
from tests.support.ingest.proofs import Site, add_provable_blocks
from tests.support.ingest.reading import add_fault

ALL = (0, 1, 2)
# Just below the final block, above it, and nearly the whole chain.
DEPTHS = (FINALITY + 4, 3, 24)
# Long enough for the whole fork to become final if the daemon trusted it.
_BLOCKS = FINALITY + 6
Cell = tuple[int, int, str, str]
# CI runs the first one.
MATRIX = [
    pytest.param(cell, id="-".join(map(str, cell)))
    for cell in product(ALL, DEPTHS, ("head", "history"), ("daemon", "once"))
]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def site(fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    fake_chain.serve()
    return Site(fake_chain, tmp_path, capsys)


class Forker:
    """Keeps one endpoint on its own fork, on which other tasks are created."""

    def __init__(self, chain: FakeChain, place: int, depth: int) -> None:
        self.chain, self.place = chain, place
        self.head = chain.back(depth)
        chain.following = [
            provider for provider in chain.following if provider is not chain.providers[place]
        ]
        self._number = 50_000
        honest = chain.head
        self.grow(depth + 1)
        chain.tree.last_mined = honest

    def grow(self, blocks: int = 1) -> None:
        """Add blocks to the fork, and keep the honest chain the newest."""
        honest = self.chain.tree.last_mined
        for _ in range(blocks):
            self._number += 1
            self.head = self.chain.tree.mine(
                [build_transaction(encode_task_created_log(self._number))], self.head
            )
        self.chain.tree.last_mined = honest
        self.chain.providers[self.place].head = self.head


def get_hash_by_height(chain: FakeChain) -> dict[int, str]:
    return {block.number: block.hash for block in get_branch(chain.head)}


def get_final_block(indexer: Indexer) -> tuple[int, str]:
    with indexer.store.read_transaction() as uow:
        at = uow.cursor.get()
    assert at is not None
    assert at.final_number is not None
    return at.final_number, str(at.final_hash)


def index_to_head_asserting_finality(
    indexer: Indexer, chain: FakeChain, clock: VirtualClock
) -> None:
    """Run turns as a daemon does up to the head; no false block is final at any time."""
    for _ in range(300):
        try:
            done = indexer.step()
        except TransientError:
            clock.advance(5)
            continue
        number, block_hash = get_final_block(indexer)
        assert block_hash == get_hash_by_height(chain)[number]
        heads = indexer.ingest.heads
        assert heads is not None
        assert heads.final.number <= max(number, 0)
        if done is None:
            return
    raise AssertionError("nothing but failures")


@pytest.mark.parametrize("cell", MATRIX)
def test_case_51_forked_endpoint_is_outvoted_before_finality(
    fake_chain: FakeChain, site: Site, open_indexer: OpenIndexer, clock: VirtualClock, cell: Cell
):
    liar, depth, where, mode = cell
    add_provable_blocks(fake_chain, 12)
    indexer = open_indexer(*fake_chain.urls, clock=clock) if mode == "daemon" else None

    def read() -> None:
        if indexer is None:
            assert site.once(*ALL) == (0, "")
        else:
            clock.advance(12)
            index_to_head_asserting_finality(indexer, fake_chain, clock)

    if where == "head":
        read()
    forker = Forker(fake_chain, liar, depth)
    for number in range(_BLOCKS):
        fake_chain.emit(encode_task_created_log(80_000 + number))
        forker.grow()
        if indexer is not None or number in {0, _BLOCKS - 1}:
            read()
    read()

    if indexer is None:
        assert (site.rows(), site.final()) == (site.truth(), fake_chain.head.number - FINALITY)
    else:
        assert indexer.canonical_logs() == fake_chain.logs()
        assert get_final_block(indexer)[0] == fake_chain.head.number - FINALITY


@pytest.mark.parametrize("liar", ALL)
def test_run_once_succeeds_with_one_of_three_endpoints_on_a_fork(
    fake_chain: FakeChain, site: Site, liar: int
):
    """Every block is stored, and the fork of one endpoint never causes a failing exit code."""
    add_provable_blocks(fake_chain, 12)
    assert site.once(*ALL) == (0, "")
    Forker(fake_chain, liar, FINALITY + 4)

    assert [site.once(*ALL) for _ in range(3)] == [(0, "")] * 3
    assert site.rows() == site.truth()


# --- two providers, or one ---


@pytest.mark.parametrize("liar", [0, 1])
def test_case_05_nothing_is_finalized_while_two_providers_disagree(
    fake_chain: FakeChain, site: Site, liar: int
):
    add_provable_blocks(fake_chain, 12)
    assert site.once(0, 1) == (0, "")
    confirmed = site.final()
    forker = Forker(fake_chain, liar, 3)
    for number in range(_BLOCKS):
        fake_chain.emit(encode_task_created_log(80_000 + number))
    forker.grow(_BLOCKS)

    exit_codes = [site.once(0, 1)[0] for _ in range(2)]
    status = site.tell("status")
    waited = site.final()
    third = site.once(0, 1, 2)

    assert third == (0, "")
    assert exit_codes == [1, 1]
    assert status[0] != 0
    assert site.rows() == site.truth()
    assert confirmed is not None
    assert waited is not None
    assert waited <= confirmed + FINALITY - 3


def silence_endpoints(chain: FakeChain, *places: int) -> list[InjectedFault]:
    return [
        add_fault(chain, transport_faults.build_http_status_fault(503), place) for place in places
    ]


def test_case_05_unconfirmed_blocks_are_not_final(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    add_provable_blocks(fake_chain, 12)
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    index_to_head_asserting_finality(indexer, fake_chain, clock)
    confirmed = get_final_block(indexer)
    (silent,) = silence_endpoints(fake_chain, 1)
    for number in range(_BLOCKS):
        fake_chain.emit(encode_task_created_log(number))
        clock.advance(12)
        index_to_head_asserting_finality(indexer, fake_chain, clock)

    waiting = get_final_block(indexer)
    heads = indexer.ingest.heads
    fake_chain.providers[1].faults.remove(silent)
    clock.advance(120)
    fake_chain.mine_empty(1)
    index_to_head_asserting_finality(indexer, fake_chain, clock)

    assert waiting == confirmed
    assert heads is not None
    assert heads.final.number == confirmed[0]
    assert indexer.canonical_logs() == fake_chain.logs()
    assert get_final_block(indexer)[0] == fake_chain.head.number - FINALITY


def test_case_51_fork_is_abandoned_when_other_endpoints_respond(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """Unconfirmed blocks are journaled from the first block on, also in history."""
    fake_chain.serve()
    add_provable_blocks(fake_chain, 12)
    forker = Forker(fake_chain, 0, 30)
    silent = silence_endpoints(fake_chain, 1, 2)
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    follow_until_idle(indexer, clock)
    followed = indexer.cursor[1]
    final = get_final_block(indexer)[0]

    for fault, place in zip(silent, (1, 2), strict=True):
        fake_chain.providers[place].faults.remove(fault)
    clock.advance(120)
    fake_chain.mine_empty(3)
    index_to_head_asserting_finality(indexer, fake_chain, clock)

    assert (followed, final) == (forker.head.hash, 0)
    assert indexer.canonical_logs() == fake_chain.logs()
    assert get_final_block(indexer)[0] == fake_chain.head.number - FINALITY


@pytest.mark.parametrize("liar", [0, 1])
def test_case_51_two_urls_of_one_provider_do_not_outvote_another(
    fake_chain: FakeChain, site: Site, monkeypatch: pytest.MonkeyPatch, liar: int
):
    """Both URLs show the same fork, and do not outvote the one endpoint of the other provider."""
    add_provable_blocks(fake_chain, 12)
    Forker(fake_chain, liar, FINALITY + 4)
    urls = [
        f"{fake_chain.urls[liar]}/one",
        f"{fake_chain.urls[liar]}/two",
        fake_chain.urls[1 - liar],
    ]
    monkeypatch.setattr(fake_chain, "urls", urls)

    code, output = site.once(*ALL)

    assert code == 1
    assert "no second" in output
    assert (site.final() or 0) < fake_chain.head.number - FINALITY - 4


def test_single_provider_continues_and_is_reported_by_status(
    fake_chain: FakeChain, site: Site, monkeypatch: pytest.MonkeyPatch
):
    add_provable_blocks(fake_chain, 12)
    monkeypatch.setattr(
        fake_chain, "urls", [f"{fake_chain.urls[0]}/one", f"{fake_chain.urls[0]}/two"]
    )

    outcome = site.once(0, 1)
    status = site.tell("status")[1]

    assert (outcome, site.final()) == ((0, ""), fake_chain.head.number - FINALITY)
    assert "one provider (2 endpoints)" in status


def test_case_05_fake_head_of_an_endpoint_finalizes_no_block(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """The depth of a block below a head is a claim, until another provider's head confirms it."""
    add_provable_blocks(fake_chain, 12)
    indexer = open_indexer(*fake_chain.urls[:2], clock=clock)
    index_to_head_asserting_finality(indexer, fake_chain, clock)
    invented = add_fault(fake_chain, build_invented_head_fault(FINALITY))
    finals = []

    for _ in range(4):
        fake_chain.emit(encode_task_created_log(90_000 + fake_chain.head.number))
        clock.advance(12)
        with suppress(TransientError):
            indexer.step()
        finals.append(get_final_block(indexer)[0] - fake_chain.head.number + FINALITY)
    fake_chain.providers[0].faults.remove(invented)
    clock.advance(120)
    follow_until_idle(indexer, clock)

    assert invented.hit_count > 0
    assert indexer.cursor[0] == fake_chain.head.number
    assert max(finals) == 0
    assert get_final_block(indexer)[0] == fake_chain.head.number - FINALITY


def test_final_block_follows_a_second_provider_one_block_behind(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    add_provable_blocks(fake_chain, 12)
    indexer = open_indexer(*fake_chain.urls[:2], clock=clock)
    index_to_head_asserting_finality(indexer, fake_chain, clock)
    fake_chain.following = [fake_chain.providers[0]]
    finals = []

    for _ in range(4):
        fake_chain.providers[1].head = fake_chain.head
        fake_chain.mine_empty(1)
        clock.advance(12)
        index_to_head_asserting_finality(indexer, fake_chain, clock)
        finals.append(get_final_block(indexer)[0] - fake_chain.head.number + FINALITY)

    assert finals == [-1] * 4


def test_confirming_a_final_block_costs_two_header_requests(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    add_provable_blocks(fake_chain, 12)
    indexer = open_indexer(*fake_chain.urls, clock=clock, reports=False)
    index_to_head_asserting_finality(indexer, fake_chain, clock)
    before = len(fake_chain.providers[1].received_requests)

    for _ in range(20):
        fake_chain.mine_empty(1)
        clock.advance(1)
        index_to_head_asserting_finality(indexer, fake_chain, clock)

    requests = list(fake_chain.providers[1].received_requests)[before:]
    assert len(requests) == 40
    assert {request.method for request in requests} == {"eth_getBlockByNumber"}


def test_safe_block_requires_confirmation_by_a_second_provider(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    add_provable_blocks(fake_chain, 12)
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.ingest.confirms_safe = True
    index_to_head_asserting_finality(indexer, fake_chain, clock)
    fake_chain.mine_empty(1)
    clock.advance(12)
    index_to_head_asserting_finality(indexer, fake_chain, clock)
    heads = indexer.ingest.heads
    assert heads is not None
    assert heads.safe is not None
    agreed = heads.safe.number
    assert agreed == fake_chain.head.number - 2
    silence_endpoints(fake_chain, 1)
    for _ in range(4):
        fake_chain.mine_empty(1)
        clock.advance(12)
        index_to_head_asserting_finality(indexer, fake_chain, clock)

    heads = indexer.ingest.heads
    assert heads is not None
    assert (heads.safe or heads.final).number <= agreed
