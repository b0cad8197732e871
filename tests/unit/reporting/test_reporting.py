"""A report drawn up from what changed says what one drawn up from nothing says."""

from dataclasses import dataclass, replace

from hypothesis import given, strategies as st

from oracle.chain.profiles.event_reader import DecodedEvents
from oracle.domain.blocks import BlockRef
from oracle.domain.events.network_events import DomainEvent, NodeJoined
from oracle.domain.events.oracle_events import ContractEvent, IndexReuse, Registrations
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.contract_state import NodeIndex, RoundsChanges
from oracle.domain.reports.kickout_review import KickoutPolicy, ScoreHistory
from oracle.domain.reports.lanes import extract_lane
from oracle.domain.reports.registration import FirstEvents
from oracle.domain.reports.report import Report, ReportSettings, compute_period
from oracle.domain.reports.round_data import decode_records
from oracle.domain.reports.rounds import Rounds
from oracle.indexer.block_hooks import HookNote
from oracle.indexer.folded_state import FoldedState
from oracle.indexer.folder import EventFolder
from oracle.indexer.kickout_reviews import build_folded_context
from oracle.reporting.recompute import build_report
from oracle.reporting.report_cutter import ReportCutter
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.report_repository import ReportState
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.api import IndexedHistory
from tests.support.examples import examples
from tests.support.histories import GENESIS_TIME, History, node
from tests.support.random_histories import any_histories
from tests.support.rounds import acceptance, accepted, registered, take
from tests.support.scripted_reader import Unread

SETTINGS = ReportSettings(deviation=1)
# A pool of two scores, so that a kickout is due after two bad scores, and a restart between cuts.
QUICKLY_DUE = replace(
    RELAY, pool_size=2, reseed_copies=1, kickout_below=4 * UNIT, restarts=(GENESIS_TIME + 700,)
)  # fmt: skip
# The same pool under a rule that holds kickouts caused by one creator.
QUICKLY_HELD = replace(CRYNUX, pool_size=2, kickout_below=4 * UNIT)
DOMAIN = Domain(31337, Address("0x" + 40 * "7"))


def block(number: int, time: int) -> BlockRef:
    return BlockRef(number, Hash(f"0x{number:064x}"), Hash(f"0x{number - 1:064x}"), time)


@dataclass
class Played:
    """What reporters saw: reports drawn up from the database, and what the contract took."""

    reports: list[Report]
    rounds: list[ContractEvent]


def drawn_up(
    store, events: list[DomainEvent], stops: list[BlockRef], settings=SETTINGS, rules=CRYNUX
) -> Played:
    """Draw a report up at each stop; the contract takes each of them in the next block."""
    reporter = ReportCutter(rules, settings, DOMAIN, anchor_window=256)
    played, contract = Played([], []), Rounds()
    folder, before = EventFolder(rules, Unread(), [reporter]), -1
    for stop in stops:
        new_events = [event for event in events if before < event.at.block <= stop.number]
        new_rounds = [event for event in played.rounds if event.at.block > before]
        with store.transaction() as uow:
            folder.fold_events(
                uow,
                DecodedEvents(new_events, new_rounds),
                final_number=-1,
                stops=[stop],
                on_stop=lambda uow, rounds, as_of: played.reports.append(
                    reporter.build_report(uow, rounds, as_of)
                ),
            )
        report, before = played.reports[-1], stop.number
        if report.records:
            said_by_contract = acceptance(contract, report, stop.number + 1, stop.time)
            contract.fold_block(stop.number + 1, said_by_contract, journal=False)
            played.rounds += said_by_contract
    return played


def from_nothing(
    empty_store: Store,
    played: Played,
    events: list[DomainEvent],
    as_of: BlockRef,
    settings=SETTINGS,
    rules=CRYNUX,
) -> Report:
    """Compute a report with all nodes at hand, on top of the rounds that were played.

    The database is empty: scores, tasks and creators are those that were just folded.
    """
    state = FoldedState(
        Fold(rules), Rounds(), FirstEvents(settings.min_scores), ScoreHistory(rules)
    )
    state.fold.fold_events([event for event in events if event.at.block <= as_of.number])
    state.record_changes()
    past_rounds = [event for event in played.rounds if event.at.block <= as_of.number]
    state.rounds.fold_block(as_of.number, past_rounds, journal=False)
    with empty_store.read_transaction() as uow:
        context = build_folded_context(uow, state, as_of.time, KickoutPolicy(rules))
        return build_report(state, as_of, context, settings, DOMAIN)


@examples(40)
@given(
    any_histories().filter(bool),
    st.lists(st.integers(0, 30), max_size=6, unique=True).map(sorted),
    st.sampled_from([0, 60, 4000]),
    st.integers(1, 3),
    st.sampled_from([CRYNUX, RELAY, QUICKLY_DUE, QUICKLY_HELD]),
)
def test_incremental_report_equals_full_report(
    new_sqlite_store, events, cuts, wait, min_scores, rules
):
    settings = replace(SETTINGS, min_scores=min_scores)
    stops = [block(number, GENESIS_TIME + number * (100 + wait)) for number in cuts]
    with new_sqlite_store() as store, new_sqlite_store() as empty_store:
        played = drawn_up(store, events, stops, settings, rules)
        reports = [
            from_nothing(empty_store, played, events, stop, settings, rules) for stop in stops
        ]

    assert played.reports == reports


def test_restart_that_ends_a_due_kickout_changes_the_root_without_events(new_sqlite_store):
    # Scores of 2 make the kickout due, but lower no H, so that no node is recovering.
    history = History().joins("A").scores("A", 2, 2)
    rules = replace(QUICKLY_DUE, restarts=(history.time + 30,))
    stops = [block(history.block + number, history.time + 20 * number) for number in (1, 2)]
    no_restart = replace(rules, restarts=())
    with new_sqlite_store() as store, new_sqlite_store() as empty_store:
        played = drawn_up(store, history.events, stops, rules=rules)
        reports = [
            from_nothing(empty_store, played, history.events, stop, rules=rules) for stop in stops
        ]
        without_restart = from_nothing(
            empty_store, played, history.events, stops[1], rules=no_restart
        )

    assert played.reports == reports
    assert without_restart.records == played.reports[1].records
    assert without_restart.root != played.reports[1].root


def test_recovering_node_is_reported_again_without_events(new_sqlite_store):
    events = History().joins("A").starts("1", "A").after(60).times_out("1").events
    stops = [block(2 + step, GENESIS_TIME + 60 + step * 600) for step in range(4)]
    with new_sqlite_store() as store:
        with store.transaction() as uow:
            (node,) = {event.node for event in events if isinstance(event, NodeJoined)}
            uow.rounds.save_changes(RoundsChanges(indexes={0: NodeIndex(0, node)}))
        drawn = drawn_up(store, events, stops).reports

    lanes = [
        extract_lane(dict(decode_records(report.records))[0], 0)
        for report in drawn
        if report.records
    ]
    assert lanes == sorted(set(lanes))
    assert len(lanes) > 2


def test_node_that_lost_its_index_is_registered_again(
    new_sqlite_store,
):
    history = History().joins("A", "B").scores("A", 10).scores("B", 10)
    rounds, reporter = registered(node("A")), reporter_at()
    with new_sqlite_store() as store:
        IndexedHistory(store).whole(history)
        with store.transaction() as uow:
            uow.rounds.save_changes(rounds.drain_changes())
            first = reporter.build_report(uow, rounds, block(history.block, history.time))
            take(rounds, accepted(2, {}, Registrations((IndexReuse(node("B"), node("A")),))))
            uow.rounds.save_changes(rounds.drain_changes())
            later = block(history.block + 1, history.time + 60)
            again = reporter.build_report(uow, rounds, later)
            anew = reporter_at().build_report(uow, rounds, later)
    assert first.registrations.new_nodes == (node("B"),)
    assert again.registrations.new_nodes == (node("A"),)
    assert again == anew


def reporter_at(length: int = 60) -> ReportCutter:
    return ReportCutter(CRYNUX, ReportSettings(period_seconds=length), DOMAIN, anchor_window=100)


def test_first_block_of_later_period_makes_report_due():
    reporter = reporter_at()

    assert not reporter.is_due(block(7, 119), block(8, 119), newest_block=8)
    assert reporter.is_due(block(7, 119), block(8, 120), newest_block=8)
    assert reporter.is_due(block(7, 119), block(8, 1000), newest_block=8)


def test_block_outside_anchor_window_makes_no_report_due():
    reporter = reporter_at()

    assert reporter.is_due(block(7, 119), block(8, 120), newest_block=107)
    assert not reporter.is_due(block(7, 119), block(8, 120), newest_block=108)


def test_only_one_report_is_cut_for_period_if_time_decreases(new_sqlite_store):
    reporter = reporter_at()
    with new_sqlite_store() as store, store.transaction() as uow:
        first = reporter.on_block(uow, Rounds(), block(7, 119))
        again = reporter.on_block(uow, Rounds(), block(9, 118))
        stored = uow.reports.get(compute_period(119, 60))

    assert first == HookNote("reports", 1)
    assert again is None
    assert stored is not None
    assert stored.report.as_of == block(7, 119)


def test_unsent_report_is_marked_missed_when_its_block_leaves_the_anchor_window(new_sqlite_store):
    reporter = ReportCutter(CRYNUX, SETTINGS, DOMAIN, anchor_window=256)
    rounds = Rounds(indexes=[NodeIndex(0, Address("0x" + 40 * "1"))])
    with new_sqlite_store() as store, store.transaction() as uow:
        for number in (10, 265, 266):
            assert reporter.on_block(uow, rounds, block(number, 60 * number)) is not None
        assert [due_report.report.period for due_report in uow.reports.list_due()] == [265, 266]
        missed = uow.reports.get(10)
        assert (missed.state, missed.reason) == (
            ReportState.MISSED,
            "as-of left the anchor window",
        )
