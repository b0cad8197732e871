"""What the network says to nodes about models, beside `network_events`; `ModelAdded` answers it.

See docs/explanation/dispatch.md#pre-download.
"""

from dataclasses import dataclass

from oracle.domain.events.timed_event import TimedEvent
from oracle.domain.ids import Address


@dataclass(frozen=True, slots=True)
class DownloadRequested(TimedEvent):
    """`until`, unix seconds: so long nobody asks the node for the model again."""

    node: Address
    model: str
    until: int
