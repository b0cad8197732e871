"""Builds the values that other packages need from `[feed]` and `[probing]`.

Separate from the sections, so that reading settings imports no client and no contract calls.
"""

from typing import Literal

from oracle.bindings.probe_calls import ProbeOrder
from oracle.chain.feed.feed_client import FeedClient
from oracle.chain.feed.relay_reader import RelayReader
from oracle.chain.profiles.profile import Profile
from oracle.daemon.config.feed_section import FeedSection
from oracle.daemon.config.probing_section import ProbingSection
from oracle.dispatch.probe_settings import ProbeSettings
from oracle.domain.events.network_events import NodeJoined, NodeUpdated, TaskKind


def feed_client(feed: FeedSection, name: Literal["url", "compare_url"]) -> FeedClient | None:
    """Return a client of one of the two feeds, or None if it is not configured."""
    url = feed.url if name == "url" else feed.compare_url
    if url is None:
        return None
    most = feed.max_response_mib * 2**20
    return FeedClient(url, f"feed.{name}", feed.timeout_seconds, most)


def feed_reader(profile: Profile) -> RelayReader:
    """Return the reader of the rows beside this profile; stakes of the chain take precedence."""
    told = profile.tells
    of_chain = any("stake" in told.get(kind, ()) for kind in (NodeJoined, NodeUpdated))
    return RelayReader(takes_stakes=not of_chain)


def probe_settings(told: ProbingSection) -> ProbeSettings | None:
    """Return the settings of a section without faults, or None if there are no system tasks."""
    if not told.enabled or told.fee_wei is None or told.max_fee_per_window_wei is None:
        return None
    order = ProbeOrder(
        TaskKind(told.kind), told.models, told.size, told.timeout_seconds, told.fee_wei
    )
    return ProbeSettings(told.window_seconds, told.max_fee_per_window_wei, told.group, order)
