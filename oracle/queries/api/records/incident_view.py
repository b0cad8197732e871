"""Lists the incidents of the network, newest first."""

from pydantic import Field

from oracle.queries.answers import Answer
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.incident_models import IncidentView, build_incident_view


class IncidentPage(Answer):
    """Suspected incidents, newest first; they change no score."""

    incidents: list[IncidentView]
    next: int | None = Field(description="`before` of the next page; null if this is the last.")


def list_incidents(snapshot: ApiSnapshot, before: int | None, limit: int) -> IncidentPage:
    """Return up to `limit` incidents with numbers below `before`, or the newest if it is None."""
    incidents = snapshot.uow.incidents.list_newest(limit + 1, below=before)
    page = incidents[:limit]
    return IncidentPage(
        as_of=snapshot.as_of,
        incidents=list(map(build_incident_view, page)),
        next=page[-1].number if len(incidents) > limit else None,
    )
