"""Cases 27, 28, 29 and 48: history is as certain as the chain's headers allow, in each run."""

from pathlib import Path

import pytest

from devnet.fakechain.block_json import Json
from devnet.fakechain.faults import block_faults, log_faults
from oracle.domain.coverage import VerificationLevel
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY
from tests.support.ingest.proofs import Site, add_provable_blocks
from tests.support.ingest.reading import add_fault, build_log_matcher, read_feature_metric

LIE = "0x" + "ab" * 32


@pytest.fixture
def site(fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Site:
    return Site(fake_chain, tmp_path, capsys)


def change_log_data(log: Json) -> None:
    log["data"] = LIE + log["data"][66:]


def test_history_is_bloom_checked_if_the_headers_allow_it(fake_chain: FakeChain, site: Site):
    add_provable_blocks(fake_chain)

    outcome = site.once(0)

    assert outcome == (0, "")
    assert min(site.levels(fake_chain.head.number - FINALITY)) >= VerificationLevel.BLOOMED
    assert site.rows() == site.truth()


def test_bloom_reveals_a_log_omitted_from_history(fake_chain: FakeChain, site: Site):
    grown_blocks = add_provable_blocks(fake_chain)
    add_fault(fake_chain, log_faults.build_omitted_logs_fault(build_log_matcher(grown_blocks[20])))

    outcome = site.once(0)

    assert outcome == (0, "")
    assert site.rows() == site.truth()


def test_receipts_reveal_an_omitted_log_without_blooms(fake_chain: FakeChain, site: Site):
    """Headers with changed blooms do not match their hash, so they do not prove the roots."""
    grown_blocks = add_provable_blocks(fake_chain)
    add_fault(fake_chain, block_faults.build_zero_bloom_fault())
    add_fault(fake_chain, log_faults.build_omitted_logs_fault(build_log_matcher(grown_blocks[20])))

    outcome = site.once(0)

    assert (
        read_feature_metric("bloom"),
        read_feature_metric("receipts_root"),
        read_feature_metric("header_hash"),
    ) == (-1, 1, -1)
    assert outcome[0] == 1
    assert "rests on a single endpoint" in outcome[1]
    assert site.rows() == site.truth()


@pytest.mark.parametrize(
    "part",
    [slice(0, 20), slice(20, 40), slice(40, 60)],
    ids=["oldest", "in the middle", "newest"],
)
def test_false_logs_in_any_part_of_history_are_detected(
    fake_chain: FakeChain, site: Site, part: slice
):
    """The endpoint returns the same lie in logs and receipts, for these blocks only."""
    false_blocks = add_provable_blocks(fake_chain)[part]
    blocks = (false_blocks[0].number, false_blocks[-1].number)

    def struck(log: Json) -> None:
        if blocks[0] <= int(log["blockNumber"], 16) <= blocks[1]:
            change_log_data(log)

    lie = log_faults.build_every_log_changed_fault(
        "other data", struck, methods=log_faults.LOG_AND_RECEIPT_METHODS
    )
    add_fault(fake_chain, lie)

    alone = [site.once(0) for _ in range(2)]
    beside = site.once(0, 1)

    assert [code for code, _ in alone] == [1, 1]
    assert alone[0] == alone[1]
    assert "the receipts do not match the receipts root of the header" in alone[0][1]
    assert (beside, site.rows()) == ((0, ""), site.truth())


def test_history_read_before_calibration_is_reread_and_repaired(fake_chain: FakeChain, site: Site):
    grown_blocks = add_provable_blocks(fake_chain)
    lie = add_fault(
        fake_chain, log_faults.build_omitted_logs_fault(build_log_matcher(grown_blocks[20]))
    )
    site.once(0, history="seamed", head="seamed", receipts=False)
    before = site.rows()
    fake_chain.providers[0].faults.remove(lie)

    outcome = site.once(0)

    assert len(before) == len(site.truth()) - 1
    assert outcome == (0, "")
    assert site.rows() == site.truth()
    assert min(site.levels(fake_chain.head.number - FINALITY)) >= VerificationLevel.BLOOMED


def test_status_reports_blocks_below_the_required_level(fake_chain: FakeChain, site: Site):
    add_provable_blocks(fake_chain)
    site.once(0, history="seamed")
    site.configured(0)

    _, before = site.tell("status")
    site.once(0)
    _, after = site.tell("status")

    assert "UNPROVEN" in before
    assert "UNPROVEN" not in after
    assert "every block of history can be verified as bloomed" in after


def test_false_receipt_samples_discredit_only_the_endpoint_that_sent_them(
    fake_chain: FakeChain, site: Site
):
    """For all the newest blocks, the first endpoint returns other receipts than the two others."""
    fake_chain.serve()
    add_provable_blocks(fake_chain)
    lie = log_faults.build_every_log_changed_fault(
        "other data", change_log_data, methods=log_faults.LOG_AND_RECEIPT_METHODS
    )
    add_fault(fake_chain, lie)

    outcome = site.once(0, 1, 2)

    assert (read_feature_metric("receipts_root"), read_feature_metric("bloom")) == (1, 1)
    assert (outcome, site.rows()) == ((0, ""), site.truth())


def test_chain_without_valid_roots_is_indexed_as_unproven(fake_chain: FakeChain, site: Site):
    add_provable_blocks(fake_chain)
    for place in (0, 1):
        add_fault(fake_chain, block_faults.build_wrong_receipts_root_fault(), place)
        add_fault(fake_chain, block_faults.build_zero_bloom_fault(), place)

    outcomes = [site.once(0, 1) for _ in range(2)]
    _, status_output = site.tell("status")

    assert outcomes == [(0, ""), (0, "")]
    assert site.rows() == site.truth()
    assert "history is unproven" in status_output
