"""What each endpoint says of one height: who judges a fork needs more than one word (3.6)."""

from typing import NamedTuple

from oracle.chain.endpoints import Endpoints
from oracle.chain.failures import EndpointError
from oracle.chain.headers import headers
from oracle.domain.block import BlockRef


class Witness(NamedTuple):
    """What one endpoint says of a height: its block there, None where it has none, and its head.

    One whose head is below the height is no witness of what is at it (chain.md 3.6).
    """

    endpoint: str
    block: BlockRef | None
    head: BlockRef


def witnesses(endpoints: Endpoints, number: int, than: str | None) -> list[Witness]:
    """Ask every endpoint but `than`; who is silent is left out, who is quarantined is not asked.

    Raises:
        InputError: an endpoint is on another chain.
    """
    found = []
    unasked = {than, *endpoints.quarantined()}
    for endpoint in endpoints:
        if endpoint.name in unasked:
            continue
        try:
            endpoints.prove(endpoint)
            head, block = headers(endpoint, ["latest", number])
        except EndpointError:
            continue
        if head is not None:
            found.append(Witness(endpoint.name, block, head))
    return found
