"""A report drawn up from what changed says what one drawn up from nothing says."""

from hypothesis import HealthCheck, given, settings, strategies as st

from oracle.chain.reader import Decoded
from oracle.domain.block import BlockRef, Position
from oracle.domain.contract_events import ContractEvent, IndexAssigned, IndexRetired, RoundAccepted
from oracle.domain.events import DomainEvent, NodeJoined
from oracle.domain.fold import Fold
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, Hash
from oracle.domain.report import ReportSettings, cut, decode, wanted_words
from oracle.domain.rounds import Rounds
from oracle.domain.rules import SEED
from oracle.services.folding import Folder, Stretch
from oracle.services.reporting import Reporter
from tests.histories import node
from tests.random_histories import histories

SETTINGS = ReportSettings(deviation=1)
HEALING_TIME = 7


class Unread:
    """The events come ready-made: there is nothing to read."""

    def read(self, logs, calls):
        raise AssertionError("no log is read here")


def indexes_for(events: list[DomainEvent]) -> list[ContractEvent]:
    """An index at every join; a re-join retires the one before."""
    given_out: dict[Address, int] = {}
    said: list[ContractEvent] = []
    for number, event in enumerate(one for one in events if isinstance(one, NodeJoined)):
        at = Position(event.at.block, event.at.tx, event.at.log)
        if event.node in given_out:
            said.append(
                IndexRetired(at=at, time=event.time, node=event.node, index=given_out[event.node])
            )
        said.append(IndexAssigned(at=at, time=event.time, node=event.node, index=number * 5))
        given_out[event.node] = number * 5
    return said


def block(number: int, time: int) -> BlockRef:
    return BlockRef(number, Hash(f"0x{number:064x}"), Hash(f"0x{number - 1:064x}"), time)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.sets(st.integers(0, 400), max_size=12), st.sampled_from([0, 60, 4000]))
def test_looking_only_at_what_changed_gives_the_same_report(new_sqlite_store, events, cuts, wait):
    contract_events = indexes_for(events)
    reporter = Reporter(SEED, SETTINGS, anchor_window=256)
    folder = Folder(SEED, Unread(), reporter)
    last = max([event.at.block for event in events], default=0)
    times = {event.at.block: event.time for event in events}
    stops = [
        block(number, max((times[b] for b in times if b <= number), default=0) + wait)
        for number in sorted(cuts)
        if number < last
    ]
    drawn = []
    with new_sqlite_store() as store, store.transaction() as unit:
        folder.fold(
            unit,
            Stretch(last, Decoded(events, contract_events), -1, stops),
            lambda unit, rounds, as_of: drawn.append(reporter.draw_up(unit, rounds, as_of)),
        )

    assert drawn == [from_nothing(events, contract_events, stop) for stop in stops]


def from_nothing(events, contract_events, as_of):
    fold, rounds = Fold(SEED), Rounds()
    fold.many([event for event in events if event.at.block <= as_of.number])
    known = [event for event in contract_events if event.at.block <= as_of.number]
    rounds.block(as_of.number, known, journal=False)
    wanted = wanted_words(rounds, fold.ledger.nodes, as_of.time, SEED)
    return cut(as_of, rounds, wanted, SETTINGS)


def test_a_node_that_heals_is_looked_at_though_nothing_happens_to_it(new_sqlite_store):
    alice = node("A")
    from tests.histories import History

    history = History().joined("A").started("t", "A").timed_out("t")
    events = list(history.events)
    end = events[-1]
    reporter = Reporter(SEED, SETTINGS, anchor_window=256)
    folder = Folder(SEED, Unread(), reporter)
    stops = [block(end.at.block + step, end.time + step * 600) for step in (0, 1, 2)]
    drawn = []
    with new_sqlite_store() as store, store.transaction() as unit:
        indexes = indexes_for(events)
        said = Decoded(events, indexes)
        folder.fold(
            unit,
            Stretch(end.at.block + 3, said, -1, stops),
            lambda unit, rounds, as_of: drawn.append(reporter.draw_up(unit, rounds, as_of)),
        )

    lanes = [dict(decode(report.records))[0] & 0xFFFF for report in drawn]
    assert lanes == sorted(set(lanes))
    assert alice is not None
