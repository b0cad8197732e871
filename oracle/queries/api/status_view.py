"""The public status: the health and its reasons."""

from oracle.queries.api.source import ApiSnapshot
from oracle.queries.status import network_status
from oracle.queries.status_models import PublicStatus, public_health


def status_view(snapshot: ApiSnapshot) -> PublicStatus:
    """Return the public status from the database."""
    network = network_status(snapshot.uow)
    health = public_health(snapshot.health())
    return PublicStatus(as_of=snapshot.as_of, health=health, **network.model_dump())
