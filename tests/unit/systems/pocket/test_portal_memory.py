"""portal-api's memory: lifetimes to the millisecond, flags, bounds."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Address
from oracle.systems.pocket.node_selector import PortalMemory
from oracle.systems.pocket.parameters import PORTAL_API_HEAD, PortalParameters
from oracle.systems.pocket.ranking import RankedNode, TicketReason, rank_nodes
from tests.support.examples import examples

A, B, C = (Address(name) for name in "abc")
# The code without its bug, as its comments describe it.
MEANT = replace(PORTAL_API_HEAD, zero_success_rate=0)


def row(memory: PortalMemory, now: int, params: PortalParameters = MEANT) -> RankedNode:
    (ranked_node,) = rank_nodes([memory.compute_stats(A, now)], params).rows
    return ranked_node


def failing(times: int, params: PortalParameters = MEANT) -> PortalMemory:
    memory = PortalMemory(params)
    for _ in range(times):
        memory.record_failure(A, 0)
    return memory


def test_counts_expire_300_seconds_after_last_outcome():
    memory = failing(1)
    memory.record_failure(A, 299_000)
    assert memory.compute_stats(A, 598_999).attempts == 2
    assert memory.compute_stats(A, 599_000).attempts == 0


def test_samples_expire_300_seconds_after_first_outcome():
    memory = PortalMemory(PORTAL_API_HEAD)
    memory.record_failure(A, 0)
    memory.record_success(A, 1.0, 299_000)
    memory.record_success(A, 3.0, 299_999)
    assert memory.compute_stats(A, 299_999).median == 2.0
    memory.record_success(A, 5.0, 300_000)
    assert memory.compute_stats(A, 300_000).median == 5.0


def test_first_success_sets_median_despite_remaining_samples():
    memory = PortalMemory(replace(PORTAL_API_HEAD, samples_ttl_ms=900_000))
    memory.record_success(A, 1.0, 0)
    memory.record_success(A, 3.0, 300_000)
    assert memory.compute_stats(A, 300_000).median == 3.0
    memory.record_success(A, 3.0, 301_000)
    assert memory.compute_stats(A, 301_000).median == 3.0
    memory.record_success(A, 0.5, 302_000)
    assert memory.compute_stats(A, 302_000).median == 2.0


def test_failure_flag_expires_300_seconds_after_it_was_set():
    memory = failing(50)
    memory.update_failure_flags([A], 10_000)
    # Its counts ended before; without them it has the single ticket of a flagged node.
    assert row(memory, 309_999).reason is TicketReason.PROBATION_ONE
    assert row(memory, 310_000).reason is TicketReason.UNTESTED


def test_cleared_failure_flag_is_stored_for_two_hours():
    memory = failing(1)
    memory.set_failure_flag(A, 300_000, flag=True)
    memory.record_success(A, 0.1, 1_000)
    memory.update_failure_flags([A], 2_000)
    assert (memory.records[A].flag, memory.records[A].flag_until) == (False, 7_202_000)


@pytest.mark.parametrize(("params", "tickets"), [(MEANT, 0), (PORTAL_API_HEAD, 10)])
def test_dead_node_keeps_tickets_only_under_portal_api_head(params, tickets):
    memory = failing(50, params)
    for now in (1_000, 100_000, 299_000):
        memory.update_failure_flags([A], now)
        assert row(memory, now, params).tickets == tickets


def test_node_with_alternating_failures_keeps_only_one_ticket():
    memory = PortalMemory(PORTAL_API_HEAD)
    for n in range(40):
        memory.record_success(A, 0.1, 2_000 * n)
        memory.record_failure(A, 2_000 * n + 1_000)
    last = row(memory, 80_000, PORTAL_API_HEAD)
    assert (last.stats.success_rate, last.tickets) == (0.5, 1)


def test_latency_samples_per_node_are_limited():
    memory = PortalMemory(PORTAL_API_HEAD)
    for n in range(2000):
        memory.record_success(A, (n * 7919 % 2000) / 1000, 100 * n)
        assert len(memory.records[A].samples) <= PORTAL_API_HEAD.max_samples


def test_passed_health_check_clears_the_failure_flag():
    memory = failing(50)
    memory.update_failure_flags([A], 0)
    memory.record_passed_health_check(A, 1)
    assert not memory.records[A].is_flagged(1)


_gaps = st.sampled_from((0, 1_000, 60_000, 149_000, 299_999, 300_000, 301_000))
_runs = st.sampled_from((1, 2, 49, 50, 51))


@examples(60)
@pytest.mark.parametrize("params", [MEANT, PORTAL_API_HEAD])
@given(
    steps=st.lists(
        st.tuples(_gaps, st.sampled_from((A, B, C)), st.booleans(), _runs, st.sets(st.just(A))),
        max_size=30,
    )
)
def test_updating_flags_of_suspect_nodes_equals_updating_all_flags(steps, params):
    quick = PortalMemory(params)
    plain = PortalMemory(params)
    now = 0
    for gap, node, well, times, absent in steps:
        now += gap
        for memory in (quick, plain):
            for _ in range(times):
                memory.record_success(node, 0.1, now) if well else memory.record_failure(node, now)
        present = [name for name in (A, B, C) if name not in absent]
        quick.update_failure_flags(present, now)
        for name in present:
            if name in plain.records:
                plain.records[name].update_failure_flag(now, params)
        assert quick.records == plain.records
