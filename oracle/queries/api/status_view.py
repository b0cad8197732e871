"""Health in a word, and the reasons: what may be told to anybody."""

from oracle.queries.api.source import ApiSnapshot
from oracle.queries.status import network_status
from oracle.queries.status_models import PublicStatus, public_health


def status_view(snapshot: ApiSnapshot) -> PublicStatus:
    """Return the health as far as the database tells it."""
    network = network_status(snapshot.uow)
    health = public_health(snapshot.health())
    return PublicStatus(as_of=snapshot.as_of, health=health, **network.model_dump())
