"""Disputes about blocks are merged for display, extended, and settled block by block."""

from oracle.domain.blocks import BlockRange
from oracle.indexer.audit.unproven_history import (
    Dispute,
    DisputedBlock,
    accept_disputed_blocks,
    load_disputes,
    record_dispute,
)
from oracle.store.database import Store


def build_dispute(*numbers: int, auditor: str = "second", digest: str = "ab") -> Dispute:
    return Dispute("first", auditor, {number: DisputedBlock(2, digest) for number in numbers})


def test_disputes_of_the_same_endpoints_are_merged_into_one_message(store: Store):
    with store.transaction() as uow:
        for number in (5, 3_000, 9_000):
            record_dispute(uow, build_dispute(number))
        record_dispute(uow, build_dispute(5, auditor="third"))

        disputes = load_disputes(uow)

    assert [dispute.auditor for dispute in disputes] == ["second", "third"]
    assert "blocks 5 to 9000 are unproven: first and second differ about 6 rows" in (
        disputes[0].message
    )


def test_overlapping_disputes_of_the_same_endpoints_count_a_block_once(store: Store):
    with store.transaction() as uow:
        record_dispute(uow, build_dispute(5, 20))
        record_dispute(uow, build_dispute(4, 5, 10))

        assert [set(dispute.blocks) for dispute in load_disputes(uow)] == [{4, 5, 10, 20}]


def test_verified_part_of_a_dispute_is_settled(store: Store):
    with store.transaction() as uow:
        record_dispute(uow, build_dispute(5, 20))

        accept_disputed_blocks(uow, BlockRange(0, 10), ["first"])
        record_dispute(uow, build_dispute(5))

        assert [set(dispute.blocks) for dispute in load_disputes(uow)] == [{20}]


def test_difference_that_the_trusted_endpoint_shows_later_is_reported(store: Store):
    with store.transaction() as uow:
        record_dispute(uow, build_dispute(5))
        accept_disputed_blocks(uow, BlockRange(0, 10), ["second"])

        record_dispute(uow, build_dispute(5))

        assert len(load_disputes(uow)) == 1


def test_difference_in_other_rows_or_at_another_endpoint_is_a_new_dispute(store: Store):
    with store.transaction() as uow:
        record_dispute(uow, build_dispute(5))
        accept_disputed_blocks(uow, BlockRange(0, 10), ["first"])

        record_dispute(uow, build_dispute(5, digest="cd"))
        record_dispute(uow, build_dispute(5, auditor="third"))

        assert [dispute.auditor for dispute in load_disputes(uow)] == ["second", "third"]
