"""A report from the changed rows equals one that is computed from all nodes."""

from dataclasses import dataclass, replace

from hypothesis import given, strategies as st

from oracle.chain.profiles.event_reader import DecodedEvents
from oracle.domain.blocks import BlockRef
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.events.oracle_events import ContractEvent
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import ZERO_ADDRESS, Hash
from oracle.domain.reports.kickout_review import ScoreHistory
from oracle.domain.reports.report import Report, ReportSettings, compute_period_number
from oracle.indexer.block_hooks import HookNote
from oracle.indexer.folded_state import FoldedState
from oracle.indexer.folder import EventFolder
from oracle.reporting.recompute import build_report
from oracle.reporting.report_cutter import ReportCutter
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.report_repository import ReportState
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.api import IDENTITY, IndexedHistory
from tests.support.examples import examples
from tests.support.histories import GENESIS_TIME, History
from tests.support.random_histories import any_histories
from tests.support.rounds import build_acceptance, build_contract_state
from tests.support.scripted_reader import Unread

SETTINGS = ReportSettings(deviation=1)
# A pool of two scores, so that a kickout is due after two bad scores, and a restart between cuts.
QUICKLY_DUE = replace(
    RELAY, pool_size=2, reseed_copies=1, kickout_below=4 * UNIT, restarts=(GENESIS_TIME + 700,)
)  # fmt: skip
# The same pool under a rule that holds kickouts caused by one creator.
QUICKLY_HELD = replace(CRYNUX, pool_size=2, kickout_below=4 * UNIT)
DOMAIN = Domain(IDENTITY.chain_id, IDENTITY.oracle or ZERO_ADDRESS)


def block(number: int, time: int) -> BlockRef:
    return BlockRef(number, Hash(f"0x{number:064x}"), Hash(f"0x{number - 1:064x}"), time)


@dataclass
class Played:
    """The reports cut from the database, and the rounds that the contract accepted."""

    reports: list[Report]
    rounds: list[ContractEvent]


def draw_reports(
    store, events: list[DomainEvent], stops: list[BlockRef], settings=SETTINGS, rules=CRYNUX
) -> Played:
    """Cut a report at each stop; the contract accepts each of them in the next block."""
    cutter = ReportCutter(Unread(), rules, settings, DOMAIN, anchor_window=256)
    played = Played([], [])
    folder = EventFolder(rules, Unread(), [cutter])
    before = -1
    for stop in stops:
        new_events = [event for event in events if before < event.at.block <= stop.number]
        new_rounds = [event for event in played.rounds if event.at.block > before]
        with store.transaction() as uow:
            folder.fold_events(
                uow,
                DecodedEvents(new_events, new_rounds),
                final_number=-1,
                stops=[stop],
                on_stop=lambda uow, contract_state, as_of: played.reports.append(
                    cutter.build_report(uow, contract_state, as_of)
                ),
            )
        report = played.reports[-1]
        before = stop.number
        if report.is_due:
            played.rounds.append(build_acceptance(report, stop.number + 1, stop.time))
    return played


def recompute(
    empty_store: Store,
    played: Played,
    events: list[DomainEvent],
    as_of: BlockRef,
    settings=SETTINGS,
    rules=CRYNUX,
) -> Report:
    """Compute a report with all nodes in memory, after the same rounds.

    The database has no rows but its identity: scores, tasks and creators come from the fold.
    """
    folded = FoldedState(Fold(rules), build_contract_state(), ScoreHistory(rules))
    folded.fold.fold_events([event for event in events if event.at.block <= as_of.number])
    folded.record_changes()
    past_rounds = [event for event in played.rounds if event.at.block <= as_of.number]
    folded.contract_state.fold_block(as_of.number, past_rounds, journal=False)
    with empty_store.transaction() as uow:
        uow.identity.ensure_stored_identity(IDENTITY)
        return build_report(uow, Unread(), folded, as_of, rules, settings)


@examples(40)
@given(
    any_histories().filter(bool),
    st.lists(st.integers(0, 30), max_size=6, unique=True).map(sorted),
    st.sampled_from([0, 60, 4000]),
    st.sampled_from([CRYNUX, RELAY, QUICKLY_DUE, QUICKLY_HELD]),
)
def test_incremental_report_equals_full_report(new_sqlite_store, events, cuts, wait, rules):
    stops = [block(number, GENESIS_TIME + number * (100 + wait)) for number in cuts]
    with new_sqlite_store() as store, new_sqlite_store() as empty_store:
        played = draw_reports(store, events, stops, rules=rules)
        reports = [recompute(empty_store, played, events, stop, rules=rules) for stop in stops]

    assert played.reports == reports


def test_relay_restart_that_ends_a_kickout_changes_the_root(new_sqlite_store):
    # Scores of 2 make the kickout due, but lower no H, so that no node is recovering.
    history = History().joins("A").scores("A", 2, 2)
    rules = replace(QUICKLY_DUE, restarts=(history.time + 30,))
    stops = [block(history.block + number, history.time + 20 * number) for number in (1, 2)]
    no_restart = replace(rules, restarts=())
    with new_sqlite_store() as store, new_sqlite_store() as empty_store:
        played = draw_reports(store, history.events, stops, rules=rules)
        reports = [
            recompute(empty_store, played, history.events, stop, rules=rules) for stop in stops
        ]
        without_restart = recompute(
            empty_store, played, history.events, stops[1], rules=no_restart
        )

    assert played.reports == reports
    assert without_restart.root != played.reports[1].root


def test_every_report_differs_while_a_node_recovers(new_sqlite_store):
    history = History().joins("A").starts("1", "A").after(60).times_out("1")
    cutter = reporter_at()
    state = build_contract_state()
    changed_nodes = []
    with new_sqlite_store() as store:
        IndexedHistory(store).whole(history)
        with store.transaction() as uow:
            for step in range(4):
                as_of = block(history.block + step, history.time + 600 * step)
                assert cutter.on_block(uow, state, as_of, -1) is not None
                report = uow.reports.get(compute_period_number(as_of.time, 60)).report
                changed_nodes.append(report.change.node_count)
                accepted_round = build_acceptance(report, as_of.number + 1, as_of.time)
                state.fold_block(as_of.number + 1, [accepted_round], journal=False)
    assert changed_nodes == [1, 1, 1, 1]


def reporter_at(length: int = 60) -> ReportCutter:
    return ReportCutter(
        Unread(), CRYNUX, ReportSettings(period_seconds=length), DOMAIN, anchor_window=100
    )


def test_report_is_due_at_the_first_block_of_a_later_period():
    reporter = reporter_at()

    assert not reporter.is_due(block(7, 119), block(8, 119), newest_block=8)
    assert reporter.is_due(block(7, 119), block(8, 120), newest_block=8)
    assert reporter.is_due(block(7, 119), block(8, 1000), newest_block=8)


def test_report_is_not_due_outside_the_anchor_window():
    reporter = reporter_at()

    assert reporter.is_due(block(7, 119), block(8, 120), newest_block=107)
    assert not reporter.is_due(block(7, 119), block(8, 120), newest_block=108)


def test_period_has_only_one_report_even_if_time_decreases(new_sqlite_store):
    reporter = reporter_at()
    with new_sqlite_store() as store, store.transaction() as uow:
        first = reporter.on_block(uow, build_contract_state(), block(7, 119), -1)
        again = reporter.on_block(uow, build_contract_state(), block(9, 118), -1)
        stored = uow.reports.get(compute_period_number(119, 60))

    assert first == HookNote("reports", 1)
    assert again is None
    assert stored is not None
    assert stored.report.as_of == block(7, 119)


def test_unsent_report_is_missed_outside_the_anchor_window(new_sqlite_store):
    cutter = ReportCutter(Unread(), CRYNUX, SETTINGS, DOMAIN, anchor_window=256)
    with new_sqlite_store() as store:
        IndexedHistory(store).whole(History().joins("A").scores("A", 10))
        with store.transaction() as uow:
            for number in (10, 265, 266):
                note = cutter.on_block(uow, build_contract_state(), block(number, 60 * number), -1)
                assert note is not None
            due_periods = [due_report.report.period for due_report in uow.reports.list_due()]
            missed = uow.reports.get(10)
    assert due_periods == [265, 266]
    assert (missed.state, missed.reason) == (ReportState.MISSED, "as-of left the anchor window")
