"""The incidents of simulated traffic, and the timeouts that they mark."""

from collections.abc import Sequence

from oracle.domain.blocks import Position
from oracle.domain.incidents import Incident, IncidentDetector, find_incident_marking_timeout
from tests.support.task_traffic import (
    BEGIN,
    Failure,
    TaskEnd,
    Traffic,
    iter_starts_and_ends,
    make_application_address,
    make_numbered_node_address,
)


def detect_incidents(
    seed: int, failure: Failure, traffic: Traffic
) -> tuple[list[Incident], list[TaskEnd]]:
    """Return the incidents of a simulated traffic, and its timeouts."""
    detector = IncidentDetector()
    timeouts = list[TaskEnd]()
    for number, (seconds, end) in enumerate(iter_starts_and_ends(seed, traffic, failure)):
        if seconds < end.seconds:
            continue
        key = make_application_address(end.application), make_numbered_node_address(end.node)
        at = Position(seconds, 0, number)
        detector.record_end(at, BEGIN + seconds, key, is_timeout=end.is_timeout)
        if end.is_timeout:
            timeouts.append(end)
    return list(detector.drain_changes().list_incidents().values()), timeouts


def is_marked(incidents: Sequence[Incident], end: TaskEnd) -> bool:
    creator = make_application_address(end.application)
    return find_incident_marking_timeout(incidents, BEGIN + end.seconds, creator) is not None
