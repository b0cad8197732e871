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


def build_feed_client(
    feed: FeedSection, setting: Literal["url", "compare_url"]
) -> FeedClient | None:
    """Return a client for one of the two feeds, or None if that feed is not configured."""
    url = feed.url if setting == "url" else feed.compare_url
    if url is None:
        return None
    max_bytes = feed.max_response_mib * 2**20
    return FeedClient(url, f"feed.{setting}", feed.timeout_seconds, max_bytes)


def build_feed_reader(profile: Profile) -> RelayReader:
    """Return the reader of the feed's rows.

    Stakes are taken from the feed only if no event of the chain's profile contains them.
    """
    fields_by_event = profile.fields_by_event_type
    has_chain_stakes = any(
        "stake" in fields_by_event.get(kind, ()) for kind in (NodeJoined, NodeUpdated)
    )
    return RelayReader(reads_stakes=not has_chain_stakes)


def build_probe_settings(probing: ProbingSection) -> ProbeSettings | None:
    """Return the settings of system tasks from a faultless section, or None if they are off."""
    if not probing.enabled or probing.fee_wei is None or probing.max_fee_per_window_wei is None:
        return None
    order = ProbeOrder(
        TaskKind(probing.kind),
        probing.models,
        probing.size,
        probing.timeout_seconds,
        probing.fee_wei,
    )
    return ProbeSettings(
        probing.window_seconds, probing.max_fee_per_window_wei, probing.group, order
    )
