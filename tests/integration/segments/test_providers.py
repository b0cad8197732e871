"""Workers count two endpoints of one provider as one witness, as the writer does."""

from contextlib import closing

from oracle.chain.segments.ordering import SegmentCoordinator
from oracle.chain.segments.segment import Segment, decode_answer
from oracle.chain.segments.worker import SegmentPreparer
from oracle.domain.blocks import BlockRange
from tests.integration.segments.conftest import OpenPrepared
from tests.support.ingest.fake_chain import FakeChain


def test_configured_provider_names_are_passed_to_workers(
    fake_chain: FakeChain, open_prepared: OpenPrepared
):
    indexer = open_prepared(1)
    indexer.index()
    source, plan = indexer.source, indexer.pool.plan
    for endpoint in source.endpoints:
        endpoint.provider = "example"
    order = SegmentCoordinator(
        plan, source.endpoints, source._window_source, 1
    ).create_segment_request(BlockRange(0, 9))
    assert order is not None

    with closing(SegmentPreparer(plan, indexer.urls)) as preparer:
        answer = decode_answer(preparer.prepare(order), order)

        assert isinstance(answer, Segment)
        assert preparer._pool is not None
        assert set(preparer._pool.providers().values()) == {"example"}
