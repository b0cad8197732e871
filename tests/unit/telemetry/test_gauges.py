"""Gauges that alerts look at show what they are given."""

import pytest

from oracle.chain.heads import Heads
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH
from oracle.reporting import sanity_gate
from oracle.store.report_repository import ReportHold
from oracle.telemetry import integrity_metrics, metrics, outbox_metrics
from oracle.telemetry.integrity_metrics import IntegrityStatistics
from oracle.telemetry.metrics import REGISTRY, DispatchStatistics, IndexStatistics
from oracle.telemetry.outbox_counts import OutboxStatistics


@pytest.fixture(autouse=True)
def as_before():
    yield
    metrics.publish_statistics(None)
    outbox_metrics.publish_outbox_stats(None)
    sanity_gate.update_hold_metrics([])
    integrity_metrics.publish_statistics(IntegrityStatistics())


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"oracle_{name}", labels)


def block(number: int, time: int) -> BlockRef:
    return BlockRef(number, ZERO_HASH, ZERO_HASH, time)


def test_lag_gauges_show_distance_of_fold_from_head():
    watch, final = DaemonHealth(JobLiveness(lambda: 0.0)), block(1, 1)
    watch.record_folded_block(block(90, 1_000))
    watch.record_heads(Heads(latest=block(99, 1_301), final=final, safe=None))
    assert (shown("lag_seconds"), shown("lag_blocks")) == (301, 9)
    assert (shown("block_number", state="head"), shown("block_number", state="final")) == (99, 1)
    watch.record_folded_block(block(99, 1_301))
    watch.record_heads(Heads(latest=block(99, 1_301), final=final, safe=None))
    assert (shown("lag_seconds"), shown("lag_blocks")) == (0, 0)


def test_statistics_gauges_show_kickouts_and_dispatch():
    dispatch = DispatchStatistics(oldest_blocks=21, balance_wei=9 * 10**15)
    metrics.publish_statistics(
        IndexStatistics(kickouts={"due": 2}, round_age=7, balance_wei=5, dispatch=dispatch)
    )
    assert shown("kickouts", state="due") == 2
    assert (shown("round_age_seconds"), shown("transmitter_balance_wei")) == (7, 5)
    assert (shown("draws_oldest_blocks"), shown("dispatcher_balance_wei")) == (21, 9 * 10**15)


def test_outbox_gauges_show_live_calls_and_abandoned_statements():
    stats = OutboxStatistics(kickouts={"live": 2, "executed": 1}, abandoned_statements=3)
    outbox_metrics.publish_outbox_stats(stats)
    assert shown("kickout_calls", state="live") == 2
    assert shown("quorum_statements_abandoned") == 3


def test_held_and_disputed_reports_have_separate_gauges():
    sanity_gate.update_hold_metrics([ReportHold(7, "too much", {}, 1, None, None)])
    assert (shown("report_held"), shown("report_disputed")) == (1, 0)


def test_integrity_gauges_show_uncovered_blocks_and_dead_letters():
    integrity_metrics.publish_statistics(IntegrityStatistics(uncovered_blocks=5, dead_letters=2))
    assert (shown("uncovered_blocks"), shown("dead_letters")) == (5, 2)
