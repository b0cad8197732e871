"""The public status: the health with its reasons, and the progress of the index."""

from oracle.queries.api.source import ApiSnapshot
from oracle.queries.status import load_network_status
from oracle.queries.status_models import PublicStatus, build_public_health


def build_public_status(snapshot: ApiSnapshot) -> PublicStatus:
    """Return the public status from the database."""
    network = load_network_status(snapshot.uow)
    health = build_public_health(snapshot.load_health())
    return PublicStatus(as_of=snapshot.as_of, health=health, **network.model_dump())
