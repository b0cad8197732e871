"""Reported outcomes count once, at their time, and need bounded memory."""

import pytest

from gateway.gateway_records import GatewayRecords, TooManyRecordsError
from gateway.gateway_rules import GatewayRules
from oracle.systems.pocket.parameters import PORTAL_API_HEAD
from oracle.systems.pocket.relay_outcomes import OutcomeKind
from tests.unit.gateway.relays import CHAIN, T0, build_failure, make_outcome


def records(**rules: int) -> GatewayRecords:
    return GatewayRecords(GatewayRules(**rules))  # type: ignore[arg-type]


def attempts(of: GatewayRecords, node: str, now: int = T0) -> int:
    return next((stats.attempts for _, stats in of.get_node_stats(node, now)), 0)


def test_duplicate_outcome_counts_once_within_ten_minutes():
    gateway_records = records()
    reported_outcome = make_outcome("a", outcome_id="x")
    assert gateway_records.record_outcomes([reported_outcome, reported_outcome], T0)[0] == (
        1,
        1,
        0,
    )
    repeated = reported_outcome._replace(outcome=make_outcome("a", T0 + 599_999).outcome)
    assert gateway_records.record_outcomes([repeated], T0 + 599_999)[0] == (0, 1, 0)
    assert gateway_records.record_outcomes(
        [make_outcome("a", T0 + 600_000, outcome_id="x")], T0 + 600_000
    )[0] == (1, 0, 0)


def test_outcome_older_than_window_is_ignored():
    gateway_records = records()
    counts, stored = gateway_records.record_outcomes(
        [make_outcome("a", T0 - 300_000), make_outcome("b", T0 - 299_999)], T0
    )
    assert counts == (1, 0, 1)
    assert [reported_outcome.outcome.node for reported_outcome in stored] == ["b"]


def test_outcome_from_the_near_future_gets_the_current_time():
    gateway_records = records()
    _, stored = gateway_records.record_outcomes([make_outcome("a", T0 + 4_000)], T0)
    assert [reported_outcome.outcome.t_ms for reported_outcome in stored] == [T0]
    assert attempts(gateway_records, "a") == 1


@pytest.mark.parametrize(
    "kind",
    [kind for kind in OutcomeKind if kind.value in {
        "session_invalid", "exhausted", "http_4xx", "too_large", "cancelled", "hedge_lost",
        "gateway_error",
    }],
)  # fmt: skip
def test_outcomes_that_the_node_did_not_cause_are_not_counted(kind: OutcomeKind):
    gateway_records = records()
    gateway_records.record_outcomes([make_outcome("a", kind=kind)], T0)
    assert attempts(gateway_records, "a") == 0
    assert not gateway_records.is_failing(CHAIN, "a", T0)


@pytest.mark.parametrize(
    ("rules", "batch"),
    [
        ({"max_nodes": 2}, [make_outcome("a"), make_outcome("b"), make_outcome("c")]),
        ({"max_outcomes": 2}, [make_outcome("a"), make_outcome("a"), make_outcome("a")]),
        ({"max_ids": 2}, [make_outcome("a", outcome_id=str(n)) for n in range(3)]),
    ],
)
def test_outcome_batch_beyond_the_capacity_is_rejected_as_a_whole(rules, batch):
    gateway_records = records(**rules)
    with pytest.raises(TooManyRecordsError):
        gateway_records.record_outcomes(batch, T0)
    assert attempts(gateway_records, "a") == 0
    assert gateway_records.record_outcomes(batch[:2], T0)[0].taken == 2


def test_capacity_is_freed_when_outcomes_expire():
    gateway_records = records(max_nodes=2, max_outcomes=2, max_ids=2)
    for minutes in (0, 11, 22):
        t = T0 + minutes * 60_000
        batch = [make_outcome(f"{minutes}-{n}", t, outcome_id=f"{minutes}-{n}") for n in range(2)]
        assert gateway_records.record_outcomes(batch, t)[0].taken == 2


def test_failing_node_loses_its_tickets_only_under_article_rules():
    # docs/explanation/pocket.md#code-against-article, 1.
    head = GatewayRecords(GatewayRules(params=PORTAL_API_HEAD))
    article = records()
    for gateway_records in (head, article):
        gateway_records.record_outcomes([build_failure("a") for _ in range(60)], T0)
    rows = [
        gateway_records.rank_candidates(CHAIN, ("a",), {}, T0).rows
        for gateway_records in (head, article)
    ]
    assert [row[0].tickets for row in rows] == [10, 0]


@pytest.mark.parametrize("name", ["id_ms", "max_nodes", "epoch_ms", "max_rankings"])
def test_gateway_rule_set_to_zero_is_named_in_the_error(name: str):
    with pytest.raises(ValueError, match=name):
        GatewayRules(**{name: 0})  # type: ignore[arg-type]
