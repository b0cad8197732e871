"""What the network says to nodes about models, beside `network_events`; `ModelAdded` answers it.

See docs/explanation/dispatch.md#pre-download.
"""

from dataclasses import dataclass

from oracle.domain.events.event_fields import NodeAddress, Seconds, Text
from oracle.domain.events.timed_event import TimedEvent


@dataclass(frozen=True, slots=True)
class DownloadRequested(TimedEvent):
    """The node is asked to download the model, and by nobody again before `until` (unix time)."""

    node: NodeAddress
    model: Text
    until: Seconds
