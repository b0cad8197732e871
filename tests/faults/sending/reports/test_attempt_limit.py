"""A statement that has had its maximum number of tries is reported once, with the remedy."""

from structlog.testing import capture_logs

from oracle.queries.outbox_figures import OutboxCounter
from oracle.reporting.push_call import MAX_TRIES, find_abandoned_pushes
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import PUSH, Intent, IntentState
from tests.support.harness import SETTINGS, Harness, run_next_step
from tests.support.sending.background_calls import send_rival_push
from tests.support.sending.in_flight import get_only_intent


def supersede_planned_push(harness: Harness) -> None:
    """End the planned push before it is sent: a fork has taken its round."""
    harness.repeat(plan_push)
    with harness.context.write_transaction() as uow:
        (push,) = uow.outbox.intents.list_in_states(harness.context.account, [IntentState.PLANNED])
        uow.outbox.intents.end_unsent_intent(
            push, IntentState.SUPERSEDED, "round 1 is taken", harness.context.stamp
        )


def reorg_rival_push(harness: Harness) -> None:
    """Let another transmitter send the planned round, and a fork remove its block."""
    chain = harness.testbed.chain
    (push,) = list_planned_pushes(harness)
    rival = send_rival_push(harness, push.request.calldata)
    harness.mine()
    harness.index()
    harness.repeat(run_next_step)
    assert (harness.testbed.round, list_planned_pushes(harness)) == (1, [])
    assert next(state for state, _ in harness.reports()) == "due"
    chain.rpc("anvil_reorg", 1, [])
    chain.rpc("anvil_dropTransaction", rival)
    harness.mine(2)
    harness.index()
    assert harness.testbed.round == 0


def list_planned_pushes(harness: Harness) -> list[Intent]:
    with harness.store.read_transaction() as uow:
        return uow.outbox.intents.list_in_states(harness.context.account, [IntentState.PLANNED])


def count_abandoned_statements(
    harness: Harness, statistics: OutboxCounter
) -> tuple[int, list[dict[str, object]]]:
    """Update the statistics; return the count and the log lines of abandoned statements."""
    with capture_logs() as logs:
        stats = statistics.compute_outbox_stats(harness.store, harness.context.stamp.at)
    lines = [dict(line) for line in logs if line["event"] == "statement_abandoned"]
    return stats.abandoned_statements, lines


def test_abandoned_statement_is_logged_once_with_a_remedy(harness: Harness):
    harness.period()
    harness.index()
    statistics = OutboxCounter()
    for _ in range(MAX_TRIES - 1):
        supersede_planned_push(harness)
    assert count_abandoned_statements(harness, statistics) == (0, [])

    supersede_planned_push(harness)
    harness.repeat(plan_push)
    assert harness.states(PUSH) == MAX_TRIES * ["superseded"]
    count, (line,) = count_abandoned_statements(harness, statistics)
    assert (count, line["round"], line["tries"]) == (1, 1, MAX_TRIES)
    assert "endpoint probe" in str(line["act"])
    assert count_abandoned_statements(harness, statistics) == (1, [])


def test_abandoned_statement_is_logged_again_after_a_restart(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    harness.period()
    harness.index()
    for _ in range(MAX_TRIES):
        supersede_planned_push(harness)
    assert len(count_abandoned_statements(harness, OutboxCounter())[1]) == 1
    assert len(count_abandoned_statements(harness, OutboxCounter())[1]) == 1


def test_expired_statement_is_not_counted_as_abandoned(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.period()
    harness.index()
    for _ in range(MAX_TRIES):
        supersede_planned_push(harness)
    chain = harness.testbed.chain
    chain.later(SETTINGS.ttl_seconds + 1)
    chain.mine()
    harness.index()
    assert count_abandoned_statements(harness, OutboxCounter()) == (0, [])


def test_statement_in_flight_is_not_counted_as_abandoned(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    assert get_only_intent(harness).state is IntentState.PLANNED
    with harness.store.read_transaction() as uow:
        assert find_abandoned_pushes(uow) == []


def test_statement_is_abandoned_after_repeated_reorgs_of_its_round(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    statistics = OutboxCounter()
    harness.period()
    harness.index()
    for _ in range(MAX_TRIES):
        assert count_abandoned_statements(harness, statistics) == (0, [])
        harness.repeat(plan_push)
        reorg_rival_push(harness)
    harness.repeat(plan_push)
    assert harness.states(PUSH) == MAX_TRIES * ["superseded"]
    count, (line,) = count_abandoned_statements(harness, statistics)
    assert (count, line["round"]) == (1, 1)


def test_statement_delivered_by_another_transmitter_is_not_abandoned(sqlite_harness: Harness):
    harness = sqlite_harness
    statistics = OutboxCounter()
    harness.period()
    harness.index()
    for _ in range(MAX_TRIES):
        supersede_planned_push(harness)
    assert count_abandoned_statements(harness, statistics)[0] == 1
    send_rival_push(harness, harness.intents()[-1].request.calldata)
    harness.mine()
    harness.index()
    assert count_abandoned_statements(harness, statistics) == (0, [])
    harness.until_final()
    assert next(state for state, _ in harness.reports()) == "landed"
