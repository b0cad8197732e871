"""Case 49: only a proof lowers a proven level, however many endpoints contradict the level."""

from pathlib import Path

import pytest

from devnet.fakechain.block_json import Block, Json
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults, transport_faults
from devnet.fakechain.faults.forging import Depth, create_forged_provider
from devnet.fakechain.mining import MinedBlock
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.verification.calibration import RETRY_SECONDS
from oracle.errors import TransientError
from oracle.store.database import Store
from tests.faults.ingest.conftest import OpenIndexer
from tests.faults.lies.lies import LIES
from tests.support.ingest.endpoints import follow_until_idle, read_metric
from tests.support.ingest.event_encoding import build_transaction, encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY
from tests.support.ingest.proofs import Site, add_provable_blocks
from tests.support.ingest.reading import add_busy_blocks, add_fault, read_feature_metric

ALL = (0, 1, 2)
LIARS = (0, 1)
_ZERO_ROOT = bytes(32)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def busy_chain(fake_chain: FakeChain) -> FakeChain:
    """Return a chain with three endpoints, and more blocks with logs than prove the headers."""
    fake_chain.serve()
    return add_busy_blocks(fake_chain)


@pytest.fixture
def site(fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    fake_chain.serve()
    return Site(fake_chain, tmp_path, capsys)


def silence_endpoints(chain: FakeChain, *places: int) -> list[InjectedFault]:
    return [
        add_fault(chain, transport_faults.build_http_status_fault(503), place) for place in places
    ]


def restore_endpoints(chain: FakeChain, faults: list[InjectedFault], *places: int) -> None:
    for fault, place in zip(faults, places, strict=True):
        chain.providers[place].faults.remove(fault)


def add_forged_block_faults(
    chain: FakeChain, what: str, depth: Depth, blocks: tuple[int, int], *places: int
) -> None:
    """Let these endpoints return the same lie for these blocks."""
    for place in places:
        liar = create_forged_provider(chain.tree, LIES[what], depth, blocks)
        liar.tag_targets = chain.provider.tag_targets
        liar.code_by_address = chain.provider.code_by_address
        add_fault(chain, block_faults.build_forwarding_fault(liar), place)


def double_receipt_logs(receipts: list[Json]) -> list[Json]:
    return [{**receipt, "logs": receipt["logs"] * 2} for receipt in receipts]


# --- a level that was proven ---


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)], ids=str)
@pytest.mark.parametrize(
    ("what", "depth"),
    [("invented", Depth.RECEIPTS), ("omitted", Depth.RECEIPTS), ("time", Depth.HEADERS)],
)
def test_case_49_two_lying_endpoints_out_of_three_do_not_lower_the_level(
    fake_chain: FakeChain, site: Site, what: str, depth: Depth, order: tuple[int, ...]
):
    """The third endpoint is silent at first, and then responds again."""
    add_provable_blocks(fake_chain)
    assert site.once(*order)[0] == 0
    rows_before = site.rows()
    honest_blocks = add_provable_blocks(fake_chain, 3)
    add_forged_block_faults(
        fake_chain, what, depth, (honest_blocks[0].number, honest_blocks[-1].number), *LIARS
    )
    silent = silence_endpoints(fake_chain, 2)

    refused = [site.once(*order) for _ in range(2)]
    _, status = site.tell("status")
    restore_endpoints(fake_chain, silent, 2)
    honest = site.once(*order)

    assert {code for code, _ in refused} == {1}
    assert "no endpoint can prove the block" in refused[0][1]
    assert "REFUSED" in status
    assert rows_before == site.truth()[: len(rows_before)]
    assert (honest, site.rows()) == ((0, ""), site.truth())


def test_case_49_proven_level_survives_a_restart_and_never_expires(
    fake_chain: FakeChain, site: Site, tmp_path: Path
):
    add_provable_blocks(fake_chain)
    site.once(*ALL)
    store = Store.open(f"sqlite:///{tmp_path / 'oracle.sqlite'}")
    with store.read_transaction() as uow:
        in_a_century = uow.facts.get_all("", 5_000_000_000)
    store.close()

    assert in_a_century["trust_receipts_root"] == "right"
    assert in_a_century["trust_header_hash"] == "right"


def test_case_49_false_receipts_of_two_endpoints_are_rejected(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(*busy_chain.urls, clock=clock)
    indexer.index()
    lost = read_metric("oracle_verification_downgrades_total", feature="receipts_root")
    for place in LIARS:
        add_fault(
            busy_chain,
            block_faults.build_changed_receipts_fault("doubled", double_receipt_logs),
            place,
        )
    silent = silence_endpoints(busy_chain, 2)
    busy_chain.emit(encode_task_created_log(1))

    for _ in range(5):
        with pytest.raises(TransientError):
            indexer.step()
        clock.advance(60)
    assert read_feature_metric("receipts_root") == 1
    restore_endpoints(busy_chain, silent, 2)
    follow_until_idle(indexer, clock, seconds=30)

    assert read_metric("oracle_verification_downgrades_total", feature="receipts_root") == lost
    assert indexer.canonical_logs() == busy_chain.logs()


class Unfilled(MinedBlock):
    """A block of a chain that no longer computes receipts roots.

    The block's own hash proves this.
    """

    def _compute_roots(self) -> tuple[bytes, bytes]:
        transactions, _ = super()._compute_roots()
        return transactions, _ZERO_ROOT


class Bloomless(MinedBlock):
    """A block of a chain that no longer fills blooms; the block's own hash proves this."""

    def _compute_roots(self) -> tuple[bytes, bytes]:
        self._bloom = 0
        return super()._compute_roots()


def mine_block_of_kind(chain: FakeChain, kind: type[MinedBlock], number: int) -> Block:
    """Mine one block of this kind, in which a task is created."""
    parent = chain.head
    txs = tuple(chain.tree._assign_nonces([build_transaction(encode_task_created_log(number))]))
    block = kind(parent, (parent.number + 1, parent.time + 12, 0), txs, chain.tree.chain_id)
    chain.tree.blocks.add_block(block, block.tx_hashes)
    chain.tree.last_mined = block
    return chain.show(block)


@pytest.mark.parametrize(("kind", "feature"), [(Unfilled, "receipts_root"), (Bloomless, "bloom")])
def test_case_49_header_that_contradicts_its_block_lowers_the_level(
    busy_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    kind: type[MinedBlock],
    feature: str,
):
    """One endpoint is enough, because its header is a proof."""
    indexer = open_indexer(busy_chain.urls[0], clock=clock)
    indexer.index()
    lost = read_metric("oracle_verification_downgrades_total", feature=feature)
    assert read_feature_metric(feature) == 1

    for number in range(FINALITY):
        mine_block_of_kind(busy_chain, kind, number)
        follow_until_idle(indexer, clock)

    assert read_metric("oracle_verification_downgrades_total", feature=feature) == lost + 1
    assert (read_feature_metric(feature), read_feature_metric("header_hash")) == (-1, 1)
    assert indexer.canonical_logs() == busy_chain.logs()


# --- before anything is proven ---


@pytest.mark.parametrize("silent_place", [0, 1, 2])
def test_case_49_two_lying_endpoints_do_not_disable_headers(
    fake_chain: FakeChain, site: Site, silent_place: int
):
    add_provable_blocks(fake_chain)
    liars = [place for place in ALL if place != silent_place]
    for place in liars:
        add_fault(
            fake_chain,
            block_faults.build_changed_receipts_fault("doubled", double_receipt_logs),
            place,
        )
    silent = silence_endpoints(fake_chain, silent_place)

    waiting = [site.once(*ALL) for _ in range(2)]
    outputs = site.tell("status")[1], site.tell("resync", "refusal")[1]
    accepted = site.tell("resync", "refusal", "--accept", "--reason", "no")
    assert site.cursor() == -1
    restore_endpoints(fake_chain, silent, silent_place)
    honest = site.once(*ALL)

    assert {code for code, _ in waiting} == {1}
    assert len(set(waiting)) == 1
    assert "does not answer" in waiting[0][1]
    assert "REFUSED" in outputs[0]
    assert "waiting" in outputs[1]
    assert accepted[0] == 2
    assert (honest, site.rows()) == ((0, ""), site.truth())


def test_case_49_receipts_root_is_unsupported_if_wrong_at_every_endpoint(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    for place in ALL:
        add_fault(busy_chain, block_faults.build_wrong_receipts_root_fault(), place)
    silent = silence_endpoints(busy_chain, 2)
    indexer = open_indexer(*busy_chain.urls, clock=clock)

    with pytest.raises(TransientError, match="does not answer"):
        indexer.step()
    assert read_feature_metric("receipts_root") == 0
    restore_endpoints(busy_chain, silent, 2)
    follow_until_idle(indexer, clock, seconds=30)

    assert read_feature_metric("receipts_root") == -1
    assert indexer.canonical_logs() == busy_chain.logs()


def test_case_49_silent_provider_does_not_block_indexing(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    for place in ALL:
        add_fault(busy_chain, block_faults.build_wrong_receipts_root_fault(), place)
    indexer = open_indexer(*busy_chain.urls, clock=clock)
    indexer.index()
    silence_endpoints(busy_chain, 2)

    clock.advance(RETRY_SECONDS + 1)
    busy_chain.emit(encode_task_created_log(1))
    follow_until_idle(indexer, clock)

    assert read_feature_metric("receipts_root") == -1
    assert indexer.canonical_logs() == busy_chain.logs()
