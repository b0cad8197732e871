"""Gauges that alerts use show the values that are set."""

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


def get_sample(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"oracle_{name}", labels)


def block(number: int, time: int) -> BlockRef:
    return BlockRef(number, ZERO_HASH, ZERO_HASH, time)


def test_lag_gauges_show_the_distance_from_the_head():
    watch = DaemonHealth(JobLiveness(lambda: 0.0))
    final = block(1, 1)
    watch.record_folded_block(block(90, 1_000))
    watch.record_heads(Heads(latest=block(99, 1_301), final=final, safe=None))
    assert (get_sample("lag_seconds"), get_sample("lag_blocks")) == (301, 9)
    assert (
        get_sample("block_number", state="head"),
        get_sample("block_number", state="final"),
    ) == (99, 1)
    watch.record_folded_block(block(99, 1_301))
    watch.record_heads(Heads(latest=block(99, 1_301), final=final, safe=None))
    assert (get_sample("lag_seconds"), get_sample("lag_blocks")) == (0, 0)


def test_statistics_gauges_show_kickouts_and_dispatch():
    dispatch = DispatchStatistics(oldest_blocks=21, balance_wei=9 * 10**15)
    metrics.publish_statistics(
        IndexStatistics(kickouts={"due": 2}, round_age=7, balance_wei=5, dispatch=dispatch)
    )
    assert get_sample("kickouts", state="due") == 2
    assert (get_sample("round_age_seconds"), get_sample("transmitter_balance_wei")) == (7, 5)
    assert (get_sample("draws_oldest_blocks"), get_sample("dispatcher_balance_wei")) == (
        21,
        9 * 10**15,
    )


def test_outbox_gauges_show_live_calls_and_abandoned_statements():
    stats = OutboxStatistics(kickouts={"live": 2, "executed": 1}, abandoned_statements=3)
    outbox_metrics.publish_outbox_stats(stats)
    assert get_sample("kickout_calls", state="live") == 2
    assert get_sample("quorum_statements_abandoned") == 3


def test_held_and_disputed_reports_have_separate_gauges():
    sanity_gate.update_hold_metrics([ReportHold(7, "too much", {}, 1, None, None)])
    assert (get_sample("report_held"), get_sample("report_disputed")) == (1, 0)


def test_integrity_gauges_show_uncovered_blocks_and_dead_letters():
    integrity_metrics.publish_statistics(IntegrityStatistics(uncovered_blocks=5, dead_letters=2))
    assert (get_sample("uncovered_blocks"), get_sample("dead_letters")) == (5, 2)
