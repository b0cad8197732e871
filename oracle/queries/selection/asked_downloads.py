"""Who is asked to download which model now: planned by the daemon, or asked on chain and silent.

See docs/explanation/dispatch.md#pre-download.
"""

from dataclasses import dataclass

from oracle.domain.ids import Address
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.systems.crynux.predownload import OPEN, requests_of

PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class AskedDownload:
    """A request that is not answered yet; `state` is `planned` or `open`.

    `until`: when it is over if nobody answers, unix seconds; None while it is not on chain.
    """

    node: Address
    model: str
    state: str
    until: int | None


def downloads_in(snapshot: NetworkSnapshot) -> list[AskedDownload]:
    """Return what is planned, then what is open, each by node and model."""
    planned = [
        AskedDownload(each.node, each.model, PLANNED, None)
        for each in sorted(snapshot.planned, key=lambda each: (each.node, each.model))
    ]
    return planned + [
        AskedDownload(address, one.request.model, one.state, one.request.until)
        for address, node in sorted(snapshot.nodes.items())
        for one in requests_of(node, snapshot.time)
        if one.state == OPEN
    ]
