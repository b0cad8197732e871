"""The models, list and sentences of incidents, for the read API and `explain`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from pydantic import Field

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.fold.working_set import ReliabilityChange
from oracle.domain.ids import Address, TaskKey
from oracle.domain.incidents import Incident, find_incident_marking_timeout
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.queries.answers import AddressText, Answer, ApiModel, AsOf
from oracle.store.database import UnitOfWork

_TIMEOUT_CAUSES = (ReliabilityCause.TIMED_OUT, ReliabilityCause.TIMEOUT_VOID)


class IncidentView(ApiModel):
    """A suspected incident, whose timeouts were probably not the fault of the nodes."""

    number: int = Field(description="Number of the incident in the network, from 1.")
    kind: Literal["application", "network"] = Field(
        description=(
            "`application`: a burst of timeouts of one application. `network`: an outage of the "
            "network."
        )
    )
    creator: AddressText | None = Field(
        description="Address of the application; null for an outage of the network."
    )
    found_block: int
    found_time: int = Field(
        description="Block time at which the incident was detected, in unix seconds."
    )
    since: int = Field(
        description="Block time of the first timeouts that the incident marks, in unix seconds."
    )
    until: int = Field(
        description=(
            "Block time of the last timeouts that the incident marks, in unix seconds; it "
            "increases while the incident is open."
        )
    )
    nodes: int = Field(description="Max number of nodes with a timeout within 15 minutes.")
    timeouts: int = Field(description="Max number of timeouts within 15 minutes.")
    over_time: int | None = Field(
        description="Block time at which the incident ended, in unix seconds; null if it is open."
    )


class IncidentPage(Answer):
    """Suspected incidents, newest first; they change no score."""

    incidents: list[IncidentView]
    next: int | None = Field(
        description="Value of `before` that requests the next page; null on the last page."
    )


def build_incident_view(incident: Incident) -> IncidentView:
    return IncidentView(
        number=incident.number,
        kind="network" if incident.is_network_outage else "application",
        creator=incident.creator,
        found_block=incident.found_at.block,
        found_time=incident.found_time,
        since=incident.since,
        until=incident.until,
        nodes=incident.nodes,
        timeouts=incident.timeouts,
        over_time=incident.over_time,
    )


def describe_incident(incident: Incident) -> str:
    """Return the kind of an incident, and the affected application if there is one."""
    if incident.creator is None:
        return "network outage"
    return f"burst of timeouts of the application {incident.creator}"


def format_marked_timeouts(count: int) -> str:
    """Return a phrase with the number of a node's timeouts that were probably not its fault."""
    sentence_start = "One of its timeouts was" if count == 1 else f"{count} of its timeouts were"
    return f"{sentence_start} probably not its fault"


class TimeoutMarks(NamedTuple):
    """The timeouts of a node that happened during incidents, each with its incident."""

    incident_by_position: Mapping[Position, Incident]

    @property
    def incidents(self) -> list[Incident]:
        """The incidents during which any of the timeouts happened, oldest first."""
        return sorted(set(self.incident_by_position.values()))

    def find_incident_number(self, position: Position) -> int | None:
        """Return the number of the incident in which a timeout happened, if any."""
        incident = self.incident_by_position.get(position)
        return None if incident is None else incident.number


def load_timeout_marks(
    uow: UnitOfWork,
    changes: Iterable[ReliabilityChange],
    find_creator: Callable[[TaskKey], Address | None],
    *,
    up_to_block: int,
) -> TimeoutMarks:
    """Find the timeouts of a node that happened during incidents known at a block.

    `find_creator` returns the creator of a task as of that block, or None if the creator is not
    known.
    """
    timeouts = [change for change in changes if change.cause in _TIMEOUT_CAUSES]
    timeout_times = [change.time for change in timeouts]
    incidents = (
        uow.incidents.list_between(min(timeout_times), max(timeout_times), up_to_block=up_to_block)
        if timeout_times
        else []
    )
    after_block = Position(up_to_block + 1, *BEFORE_EVERYTHING[1:])
    incident_by_position = {}
    for change in timeouts if incidents else ():
        creator = None if change.task is None else find_creator(change.task)
        incident = find_incident_marking_timeout(incidents, change.time, creator, after_block)
        if incident is not None:
            incident_by_position[change.at] = incident
    return TimeoutMarks(incident_by_position)


def list_incidents(uow: UnitOfWork, as_of: AsOf, before: int | None, limit: int) -> IncidentPage:
    """Return up to `limit` incidents numbered below `before`, by default the newest."""
    incidents = uow.incidents.list_newest(limit + 1, below=before)
    incident_page = incidents[:limit]
    return IncidentPage(
        as_of=as_of,
        incidents=list(map(build_incident_view, incident_page)),
        next=incident_page[-1].number if len(incidents) > limit else None,
    )
