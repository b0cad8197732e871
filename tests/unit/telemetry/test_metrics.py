"""Metrics from the database's statistics, and the exposition text for Prometheus."""

import pytest

from oracle.telemetry import metrics
from oracle.telemetry.metrics import IndexStatistics, count_shares


@pytest.fixture(autouse=True)
def as_before():
    yield
    metrics.publish_statistics(None)


def render_lines(statistics):
    metrics.publish_statistics(statistics)
    return metrics.render_metrics()[0].decode().splitlines()


def test_missing_statistics_show_no_node_counts():
    metrics.publish_statistics(None)
    assert not any(
        line.startswith("oracle_nodes")
        for line in metrics.render_metrics()[0].decode().splitlines()
    )


def test_count_metrics_have_a_label_for_each_status_and_kind():
    lines = render_lines(
        IndexStatistics(nodes={"available": 3, "paused": 1}, outbox={("push", "live"): 2})
    )

    assert 'oracle_nodes{status="available"} 3.0' in lines
    assert 'oracle_outbox_intents{kind="push",state="live"} 2.0' in lines


def test_qos_distribution_counts_every_member_once():
    lines = render_lines(IndexStatistics(qos=count_shares((0.0, 0.05, 0.5, 1.0))))

    assert 'oracle_qos_ratio_bucket{le="0.0"} 1.0' in lines
    assert 'oracle_qos_ratio_bucket{le="0.1"} 2.0' in lines
    assert 'oracle_qos_ratio_bucket{le="0.5"} 3.0' in lines
    assert 'oracle_qos_ratio_bucket{le="1.0"} 4.0' in lines
    assert 'oracle_qos_ratio_bucket{le="+Inf"} 4.0' in lines
    assert "oracle_qos_ratio_sum 1.55" in lines


def test_qos_distribution_may_decrease():
    render_lines(IndexStatistics(qos=count_shares((1.0, 1.0))))
    assert "oracle_qos_ratio_count 1.0" in render_lines(IndexStatistics(qos=count_shares((0.3,))))


def test_missing_value_is_not_exported_as_zero():
    names = {line.split()[0] for line in render_lines(IndexStatistics())}
    assert "oracle_round_age_seconds" not in names
    assert "oracle_transmitter_balance_wei" not in names
    assert "oracle_excluded_nodes" in names


def test_metric_labels_are_from_bounded_set():
    labels = {
        label
        for family in metrics.REGISTRY.collect()
        for sample in family.samples
        for label in sample.labels
    }
    # Labels with a bounded number of values each; an endpoint is its index and its host.
    counted = {"state", "kind", "method", "step", "status", "version", "le", "endpoint", "check"}
    counted |= {"outcome", "reason", "tag", "counter", "level", "result", "feature", "when"}
    counted |= {"listener"}
    # As named in the settings of a gateway.
    counted |= {"chain"}
    # As named in the settings of notifications.
    counted |= {"target"}
    # One of each per process.
    counted |= {"rules", "dry_run"}
    # An account by its role, a signer as the contract names it; a peer and a TLS server by host.
    counted |= {"account", "window", "signer", "host", "server"}
    assert labels <= counted
