"""Cases 49 and 65: unprovable blocks are refused, with the same message each time."""

from pathlib import Path

import pytest

from devnet.fakechain.block_json import Json
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults
from oracle.chain.verification.calibration import REQUIRED_SAMPLES, HeaderFeature
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.proofs import Site, add_provable_blocks
from tests.support.ingest.reading import add_fault


@pytest.fixture
def site(fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    return Site(fake_chain, tmp_path, capsys)


def build_all_succeeded_fault(above: int = 0) -> InjectedFault:
    """Return a fault that reports every transaction above a block as successful."""

    def set_status(receipts: list[Json]) -> list[Json]:
        return [
            {**receipt, "status": "0x1"} if int(receipt["blockNumber"], 16) > above else receipt
            for receipt in receipts
        ]

    return block_faults.build_changed_receipts_fault("all succeeded", set_status)


def build_wrong_gas_fault() -> InjectedFault:
    """Return a fault that makes the receipts of all blocks invalid."""

    def set_gas(receipts: list[Json]) -> list[Json]:
        return [{**receipt, "cumulativeGasUsed": "0x1"} for receipt in receipts]

    return block_faults.build_changed_receipts_fault("wrong gas", set_gas)


def test_rejected_block_is_reported_until_an_endpoint_proves_it(fake_chain: FakeChain, site: Site):
    first = add_provable_blocks(fake_chain, 30)[-1]
    new_blocks = add_provable_blocks(fake_chain, 10)
    add_fault(fake_chain, build_all_succeeded_fault(first.number))

    outcomes = [site.once(0) for _ in range(3)]
    _, status_output = site.tell("status")
    _, refusal_text = site.tell("resync", "refusal")
    explained = site.once(0, 1)
    _, after = site.tell("resync", "refusal")

    assert {code for code, _ in outcomes} == {1}
    assert len(set(outcomes)) == 1
    assert f"block {new_blocks[0].number}" in outcomes[0][1]
    assert "REFUSED" in status_output
    assert "resync refusal --accept" in refusal_text
    assert (explained, site.rows()) == ((0, ""), site.truth())
    assert "no block is refused" in after


def test_rejected_block_stays_rejected_after_crash(fake_chain: FakeChain, site: Site):
    """A refusal is stored at once, but that a feature is proven only at the end of a tick.

    A process that is killed in between leaves the refusal alone. The next one sees no valid
    sample, so that the chain seems to lack the feature.
    """
    first = add_provable_blocks(fake_chain, 30)[-1]
    # More blocks than are sampled to find that a chain lacks the feature.
    add_provable_blocks(fake_chain, REQUIRED_SAMPLES + 10)
    lie = add_fault(fake_chain, build_all_succeeded_fault(first.number))
    refused = site.once(0)
    indexed_block = site.cursor()
    site.forget_feature(HeaderFeature.RECEIPTS)
    fake_chain.providers[0].faults.remove(lie)
    add_fault(fake_chain, build_wrong_gas_fault())

    outcome = site.once(0)

    assert refused[0] == 1
    assert (outcome, site.cursor()) == (refused, indexed_block)


def test_rejected_block_is_indexed_after_the_operator_accepts_it(
    fake_chain: FakeChain, site: Site
):
    first = add_provable_blocks(fake_chain, 30)[-1]
    (block,) = add_provable_blocks(fake_chain, 1)
    add_fault(fake_chain, build_all_succeeded_fault(first.number))
    refused = site.once(0)

    without, _ = site.tell("resync", "refusal", "--accept")
    accepted, output = site.tell("resync", "refusal", "--accept", "--reason", "seen elsewhere")
    after = [site.once(0) for _ in range(2)]

    assert (refused[0], without, accepted) == (1, 2, 0)
    assert f"block {block.number}" in output
    assert after == [(0, ""), (0, "")]
    assert site.rows() == site.truth()


def test_two_agreeing_endpoints_do_not_resolve_a_rejected_block(fake_chain: FakeChain, site: Site):
    """Only a proof lowers a proven level, not the number of endpoints with the same data."""
    first = add_provable_blocks(fake_chain, 30)[-1]
    refused, *_ = add_provable_blocks(fake_chain, 5)
    for place in (0, 1):
        add_fault(fake_chain, build_all_succeeded_fault(first.number), place)

    alone = site.once(0)
    both = site.once(0, 1)

    assert (alone[0], both[0]) == (1, 1)
    assert f"block {refused.number}: the receipts do not match the receipts root" in both[1]
    assert all(number < refused.number for number, *_ in site.rows())
