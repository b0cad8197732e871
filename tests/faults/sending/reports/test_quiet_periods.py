"""A quiet period whose blocks are unproven is held once, and delays no other report."""

from dataclasses import replace

from oracle.domain.blocks import Position
from oracle.domain.coverage import CoverageInterval, VerificationLevel
from oracle.domain.fold.working_set import ReliabilityChange
from oracle.domain.ids import Address, TaskKey
from oracle.domain.reports.sanity_limits import SanityLimits
from oracle.domain.scoring.reliability import ReliabilityCause
from tests.support.harness import Harness

# Three members are enough to judge, and a report of any change may go.
QUIET_ALONE = SanityLimits(changed_share=1, kick_share=1, min_members=3)
TASKS = 120


def store_ended_tasks(harness: Harness, *, tasks: int, below: int = 0) -> None:
    """Write tasks of 30 nodes that ended `below` blocks under the cursor, as the fold does."""
    with harness.store.transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        block = cursor.number - below
        time = cursor.time
        uow.reliability.append(
            [
                ReliabilityChange(
                    Address("0x" + f"{index % 30:040x}"),
                    Position(block, index, 1_000_000),
                    time,
                    ReliabilityCause.SUCCEEDED,
                    TaskKey("0x" + f"{block:032x}{index:032x}"),
                    10**18,
                    10**18,
                )
                for index in range(tasks)
            ]
        )


def end_periods(
    harness: Harness,
    *,
    before: int = TASKS,
    tasks: int = TASKS,
    level: VerificationLevel = VerificationLevel.PINNED,
) -> None:
    """End a period without a report, and one with a report, with so many tasks each."""
    harness.index()
    store_ended_tasks(harness, tasks=before)
    harness.period()
    harness.index()
    store_ended_tasks(harness, tasks=tasks, below=2)
    set_verification_level(harness, level)
    harness.tick()
    harness.mine()
    harness.tick()


def end_busy_periods(harness: Harness, *, tasks: int = TASKS) -> int:
    """End enough busy periods to establish the usual number of tasks; return their rounds."""
    harness.reporting = replace(harness.reporting, sanity=QUIET_ALONE)
    for _ in range(4):
        end_periods(harness, before=tasks, tasks=tasks)
    assert list_held_periods(harness) == []
    return harness.testbed.round


def set_verification_level(harness: Harness, level: VerificationLevel) -> None:
    with harness.store.transaction() as uow:
        scope = uow.coverage.get_current_scope()
        cursor = uow.cursor.get()
        assert scope is not None
        assert cursor is not None
        uow.coverage.store_interval(scope.id, CoverageInterval(0, cursor.number, level, "a"))


def list_held_periods(harness: Harness) -> list[int]:
    with harness.store.read_transaction() as uow:
        return [hold.period for hold in uow.holds.list_held()]


def test_report_of_a_quiet_period_on_unproven_blocks_is_held(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    before = end_busy_periods(harness)

    end_periods(harness, tasks=0)
    assert (len(list_held_periods(harness)), harness.testbed.round) == (1, before)
    # The network stays quiet, as at night: this is usual now, and the held report blocks no other.
    end_periods(harness, before=0, tasks=0)
    assert (len(list_held_periods(harness)), harness.testbed.round) == (1, before + 1)
    end_periods(harness, before=0, tasks=0)
    assert (len(list_held_periods(harness)), harness.testbed.round) == (1, before + 2)


def test_report_of_a_quiet_period_on_proven_blocks_is_accepted(sqlite_harness: Harness):
    harness = sqlite_harness
    before = end_busy_periods(harness)
    end_periods(harness, tasks=0, level=VerificationLevel.BLOOMED)
    assert (list_held_periods(harness), harness.testbed.round) == ([], before + 1)


def test_report_after_a_spike_of_tasks_is_not_held(
    sqlite_harness: Harness,
):
    """All thirty nodes work in each period, whatever another creator orders."""
    harness = sqlite_harness
    before = end_busy_periods(harness, tasks=10 * TASKS)
    end_periods(harness)
    assert (list_held_periods(harness), harness.testbed.round) == ([], before + 1)
