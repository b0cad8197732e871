"""A statement that has had its maximum number of tries is reported once, with the remedy."""

from structlog.testing import capture_logs

from oracle.queries.outbox_figures import OutboxCounter
from oracle.reporting.push_call import MAX_TRIES, find_abandoned_pushes
from oracle.reporting.report_planner import plan_push
from oracle.reporting.reporting_context import PUSH
from oracle.store.outbox.records import Intent, IntentState
from tests.support.office import SETTINGS, Office, next_step
from tests.support.sending.background_calls import send_rival_push
from tests.support.sending.in_flight import get_only_intent


def supersede_planned_push(office: Office) -> None:
    """End the planned push before it is sent: a fork has taken its round."""
    office.repeat(plan_push)
    with office.context.write_transaction() as uow:
        (push,) = uow.outbox.intents.list_in_states(office.context.account, [IntentState.PLANNED])
        uow.outbox.intents.end_unsent(
            push, IntentState.SUPERSEDED, "round 1 is taken", office.context.stamp
        )


def reorg_rival_push(office: Office) -> None:
    """Let another transmitter send the planned round, and a fork remove its block."""
    chain, (push,) = office.premises.chain, list_planned_pushes(office)
    rival = send_rival_push(office, push.request.calldata)
    office.mine()
    office.index()
    office.repeat(next_step)
    assert (office.premises.round, list_planned_pushes(office)) == (1, [])
    assert next(state for state, _ in office.reports()) == "due"
    chain.rpc("anvil_reorg", 1, [])
    chain.rpc("anvil_dropTransaction", rival)
    office.mine(2)
    office.index()
    assert office.premises.round == 0


def list_planned_pushes(office: Office) -> list[Intent]:
    with office.store.read_transaction() as uow:
        return uow.outbox.intents.list_in_states(office.context.account, [IntentState.PLANNED])


def count_abandoned_statements(
    office: Office, statistics: OutboxCounter
) -> tuple[int, list[dict[str, object]]]:
    """Update the statistics; return the count and the log lines of abandoned statements."""
    with capture_logs() as logs:
        stats = statistics.compute_outbox_stats(office.store, office.context.stamp.at)
    lines = [dict(line) for line in logs if line["event"] == "statement_abandoned"]
    return stats.abandoned_statements, lines


def test_statement_that_used_all_its_attempts_is_logged_once_with_remedy(office: Office):
    office.period()
    office.index()
    statistics = OutboxCounter()
    for _ in range(MAX_TRIES - 1):
        supersede_planned_push(office)
    assert count_abandoned_statements(office, statistics) == (0, [])

    supersede_planned_push(office)
    office.repeat(plan_push)
    assert office.states(PUSH) == MAX_TRIES * ["superseded"]
    count, (line,) = count_abandoned_statements(office, statistics)
    assert (count, line["round"], line["tries"]) == (1, 1, MAX_TRIES)
    assert "endpoint probe" in str(line["act"])
    assert count_abandoned_statements(office, statistics) == (1, [])


def test_statement_that_used_all_its_attempts_is_logged_again_after_restart(sqlite_office: Office):
    office = sqlite_office
    office.period()
    office.index()
    for _ in range(MAX_TRIES):
        supersede_planned_push(office)
    assert len(count_abandoned_statements(office, OutboxCounter())[1]) == 1
    assert len(count_abandoned_statements(office, OutboxCounter())[1]) == 1


def test_expired_statement_is_not_counted_as_given_up(sqlite_office: Office):
    office = sqlite_office
    office.period()
    office.index()
    for _ in range(MAX_TRIES):
        supersede_planned_push(office)
    chain = office.premises.chain
    chain.later(SETTINGS.ttl_seconds + 1)
    chain.mine()
    office.index()
    assert count_abandoned_statements(office, OutboxCounter()) == (0, [])


def test_statement_in_flight_is_not_counted_as_abandoned(sqlite_office: Office):
    office = sqlite_office
    office.period()
    office.index()
    office.repeat(plan_push)
    assert get_only_intent(office).state is IntentState.PLANNED
    with office.store.read_transaction() as uow:
        assert find_abandoned_pushes(uow) == []


def test_statement_is_abandoned_after_repeated_reorgs_of_its_round(
    sqlite_office: Office,
):
    office, statistics = sqlite_office, OutboxCounter()
    office.period()
    office.index()
    for _ in range(MAX_TRIES):
        assert count_abandoned_statements(office, statistics) == (0, [])
        office.repeat(plan_push)
        reorg_rival_push(office)
    office.repeat(plan_push)
    assert office.states(PUSH) == MAX_TRIES * ["superseded"]
    count, (line,) = count_abandoned_statements(office, statistics)
    assert (count, line["round"]) == (1, 1)


def test_statement_delivered_by_another_transmitter_is_not_abandoned(sqlite_office: Office):
    office, statistics = sqlite_office, OutboxCounter()
    office.period()
    office.index()
    for _ in range(MAX_TRIES):
        supersede_planned_push(office)
    assert count_abandoned_statements(office, statistics)[0] == 1
    send_rival_push(office, office.intents()[-1].request.calldata)
    office.mine()
    office.index()
    assert count_abandoned_statements(office, statistics) == (0, [])
    office.until_final()
    assert next(state for state, _ in office.reports()) == "landed"
