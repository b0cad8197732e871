"""The detector finds simulated incidents, and nothing else; see docs/explanation/incidents."""

from copy import deepcopy
from random import Random

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import TaskCreated, TaskTimedOut
from oracle.domain.ids import Address
from oracle.domain.incidents import Incident, IncidentDetector, IncidentRows
from tests.support.examples import examples
from tests.support.histories import History, fold_history, make_node_address
from tests.support.task_traffic import (
    BEGIN,
    Attempt,
    Failure,
    TaskEnd,
    Traffic,
    build_burst_history,
    iter_starts_and_ends,
    iter_traffic_events,
    make_application_address,
    make_numbered_node_address,
    never_fails,
)
from tests.unit.domain.incidents.naive_incidents import find_incidents_naively
from tests.unit.domain.incidents.traffic_incidents import detect_incidents, is_marked

End = tuple[Position, int, Address, Address, bool]
SMALL = Traffic(tasks=2_500, nodes=40, applications=10, gap_seconds=2)
SEEDS = (1, 2, 3)


def burst_of_one_application(attempt: Attempt) -> bool:
    return attempt.application == 3 and 2000 <= attempt.seconds < 3200


def outage(attempt: Attempt) -> bool:
    return 2500 <= attempt.seconds < 2800 and attempt.chance < 0.7


def site_down(attempt: Attempt) -> bool:
    return attempt.node >= 30 and 2500 <= attempt.seconds < 3400


def detect(
    seed: int, failure: Failure, traffic: Traffic = SMALL
) -> tuple[list[Incident], list[TaskEnd]]:
    """Return the incidents of a small simulated traffic, and its timeouts."""
    return detect_incidents(seed, failure, traffic)


@pytest.mark.parametrize("seed", SEEDS)
def test_incident_covers_exactly_timeouts_of_application_burst(seed):
    incidents, timeouts = detect(seed, burst_of_one_application)
    (incident,) = incidents
    assert incident.creator == make_application_address(3)
    assert {end for end in timeouts if is_marked(incidents, end)} == {
        end
        for end in timeouts
        if end.is_caused or (end.application == 3 and is_marked(incidents, end))
    }
    assert sum(end.is_caused for end in timeouts) > 25
    first = BEGIN + min(end.seconds for end in timeouts if end.is_caused)
    assert 0 < incident.found_time - first < 600
    assert incident.over_time is not None


@pytest.mark.parametrize("seed", SEEDS)
def test_incident_covers_all_timeouts_of_outage(seed):
    incidents, timeouts = detect(seed, outage)
    (incident,) = incidents
    assert incident.is_network_outage
    caused = [end for end in timeouts if end.is_caused]
    assert len(caused) > 50
    assert all(is_marked(incidents, end) for end in caused)
    assert sum(is_marked(incidents, end) for end in timeouts) <= len(caused) + 5
    assert incident.found_time - BEGIN - min(end.seconds for end in caused) < 120


@pytest.mark.parametrize("seed", SEEDS)
def test_timeouts_of_offline_nodes_are_not_an_incident(seed):
    incidents, timeouts = detect(seed, site_down)
    assert sum(end.is_caused for end in timeouts) >= 15
    assert incidents == []


@pytest.mark.parametrize("sick_nodes", [0, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_healthy_or_always_failing_network_has_no_incident(seed, sick_nodes):
    traffic = Traffic(tasks=2_500, nodes=40, applications=10, gap_seconds=2, sick_nodes=sick_nodes)
    incidents, timeouts = detect(seed, never_fails, traffic)
    assert timeouts
    assert incidents == []


@pytest.mark.parametrize("seed", SEEDS)
def test_failures_in_a_new_network_are_not_an_incident(seed):
    traffic = Traffic(tasks=800, nodes=40, applications=10, gap_seconds=2, failures=60)
    incidents, timeouts = detect(seed, never_fails, traffic)
    assert len(timeouts) > 20
    assert incidents == []


def random_ends(seed: int) -> list[End]:
    """Return ends with quiet times, bursts and outages of a small network;
    the clock may go back.
    """
    random = Random(seed)  # noqa: S311  made-up traffic
    time = random.randrange(10**6)
    quiet_count = random.choice((0, 100, 520))
    ends = [
        (
            Position(0, 0, step),
            time + 20 * step,
            make_node_address("c0"),
            make_node_address(f"n{step % 9}"),
            step % 99 == 0,
        )
        for step in range(quiet_count)
    ]
    time += 20 * quiet_count
    for phase in range(1, random.randint(2, 6)):
        is_outage = random.random() < 0.3
        rate_by_creator = [0.9 if is_outage else random.choice((0.01, 0.9)) for _ in range(4)]
        node_count = random.randint(3, 16)
        gaps = random.choice(((0, 9), (0, 40), (-30, 90)))
        time += random.choice((0, 0, 300, 5000, 90_000))
        for step in range(random.randint(1, 60)):
            time += random.randint(*gaps)
            creator = random.randrange(4)
            is_timeout = random.random() < rate_by_creator[creator]
            key = (
                make_node_address(f"c{creator}"),
                make_node_address(f"n{random.randrange(node_count)}"),
            )
            ends.append((Position(phase, step, 0), time, *key, is_timeout))
    return ends


def record(detector: IncidentDetector, ends: list[End]) -> None:
    for at, time, creator, runner, is_timeout in ends:
        detector.record_end(at, time, (creator, runner), is_timeout=is_timeout)


def copy_rows(detector: IncidentDetector) -> tuple[object, ...]:
    return deepcopy((detector.minutes, detector.open_incidents, detector.incident_count))


seeds = st.integers(0, 2**32)


@examples(60)
@given(seeds)
def test_incremental_detection_matches_brute_force(seed):
    detector = IncidentDetector()
    ends = random_ends(seed)
    record(detector, ends)
    assert detector.drain_changes().incidents == find_incidents_naively(ends)


def test_random_histories_contain_both_kinds_of_incident():
    found = [
        incident.is_network_outage
        for seed in range(40)
        for incident in find_incidents_naively(random_ends(seed)).values()
    ]
    assert {True, False} == set(found)


@examples(60)
@given(seeds, st.data())
def test_detector_restored_from_rows_finds_same_incidents(seed, data):
    ends = random_ends(seed)
    whole = IncidentDetector()
    record(whole, ends)
    cut = data.draw(st.integers(0, len(ends)))
    first = IncidentDetector()
    record(first, ends[:cut])
    second = IncidentDetector(deepcopy(first.minutes), first.open_incidents, first.incident_count)
    record(second, ends[cut:])
    assert copy_rows(second) == copy_rows(whole)
    together = first.drain_changes().incidents | second.drain_changes().incidents
    assert together == whole.drain_changes().incidents


@examples(60)
@given(seeds, st.data())
def test_pre_images_restore_minutes_and_incidents(seed, data):
    ends = random_ends(seed)
    detector = IncidentDetector()
    cut = data.draw(st.integers(0, len(ends)))
    record(detector, ends[:cut])
    before = copy_rows(detector)
    count = detector.incident_count
    detector.pre_images = images = IncidentRows()
    record(detector, ends[cut:])
    minutes = {row.minute: row for row in detector.minutes}
    incidents = {incident.number: incident for incident in detector.open_incidents}
    for number, row in images.minutes.items():
        minutes.pop(number, None)
        if row is not None:
            minutes[number] = row
    for number, incident in images.incidents.items():
        incidents.pop(number, None)
        if incident is not None:
            incidents[number] = incident
    restored = IncidentDetector(
        (minutes[number] for number in sorted(minutes)), incidents.values(), count
    )
    assert copy_rows(restored) == before


def test_detector_state_is_bounded():
    """Minutes are kept for a day, and creators and nodes only for the newest 15 minutes."""
    traffic = Traffic(tasks=5_000, nodes=10, applications=3, gap_seconds=60)
    detector = IncidentDetector()
    for number, (seconds, end) in enumerate(iter_starts_and_ends(1, traffic)):
        key = make_application_address(end.application), make_numbered_node_address(end.node)
        detector.record_end(Position(0, 0, number), seconds, key, is_timeout=False)
    assert seconds > 3 * 86_400
    assert len(detector.minutes) <= 1440 + 15
    assert sum(bool(row.ends_by_key) for row in detector.minutes) <= 15
    assert all(row.minute > seconds // 60 - 1455 for row in detector.minutes)


def end_counts(history: History) -> list[tuple[int, int]]:
    fold, _ = fold_history(history)
    return [(row.ends, row.timeouts) for row in fold.ledger.detector.minutes]


def test_first_answer_or_timeout_counts_as_the_end_of_a_task():
    started = History().joins("A").creates("1").starts("1", "A").after(1)
    assert end_counts(started) == []
    assert end_counts(deepcopy(started).submits("1")) == [(1, 0)]
    assert end_counts(deepcopy(started).submits("1").times_out("1")) == [(1, 0)]
    assert end_counts(deepcopy(started).reports_error("1").aborts("1")) == [(1, 0)]
    assert end_counts(deepcopy(started).times_out("1")) == [(1, 1)]
    assert end_counts(deepcopy(started).succeeds("1")) == [(1, 0)]


def test_abort_without_an_answer_does_not_count_as_task_end():
    assert end_counts(History().joins("A").creates("1").starts("1", "A").aborts("1")) == []


def test_incident_detector_counts_a_commitment_as_the_end_of_a_run():
    history = History().joins("A", "B").creates("1")
    history.starts("1", "A", place=0).starts("1", "B", place=1).after(1)
    history.commits("1", "A").discloses("1", "A")
    assert end_counts(deepcopy(history)) == [(1, 0)]
    assert end_counts(history.times_out("1", by="B")) == [(2, 1)]


def test_folded_burst_opens_and_closes_incident():
    history = build_burst_history()
    _, changes = fold_history(history)
    (incident,) = changes.incidents.incidents.values()
    assert incident is not None
    assert incident.creator == make_node_address("burst")
    assert (incident.nodes, incident.timeouts) == (12, 12)
    assert incident.over_at == history.events[-2].at
    creators = {
        event.task: event.creator for event in history.events if isinstance(event, TaskCreated)
    }
    timeouts = [event for event in history.events if isinstance(event, TaskTimedOut)]
    assert all(incident.marks(event.time, creators[event.task]) for event in timeouts)
    assert not incident.marks(timeouts[0].time, make_node_address("calm"))
    assert not incident.marks(incident.until + 1, make_node_address("burst"))


def test_position_determines_which_timeouts_an_incident_covers():
    place = Position(10, 0, 0)
    incident = Incident(1, make_node_address("c"), place, 1000, 100, 1019, 5, 5)
    earlier = Position(9, 0, 0)
    later = Position(20, 0, 0)
    assert not incident.marks(1000, make_node_address("c"), earlier)
    assert incident.marks(1500, make_node_address("c"), later)
    over = incident._replace(over_at=Position(15, 0, 0), over_time=2000)
    assert not over.marks(1500, make_node_address("c"), later)
    assert over.marks(1500, make_node_address("c"), Position(12, 0, 0))


def test_fold_finds_same_incidents_as_detector():
    fold, changes = fold_history(list(iter_traffic_events(1, SMALL, outage)))
    found = detect(1, outage)[0]
    assert [incident[3:8] for incident in found] == [
        incident[3:8] for incident in changes.incidents.incidents.values() if incident
    ]
    assert fold.ledger.detector.incident_count == len(found)
