"""Builds the event reader from the settings, without importing network code."""

from oracle.chain.feed.relay_reader import RelayReader
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.profiles.profile import Profile
from oracle.daemon.config.loader import Config
from oracle.domain.events.network_events import NodeJoined, NodeUpdated


def open_reader(config: Config) -> EventReader:
    """Create the reader that turns logs and feed rows into events.

    No endpoint is contacted.

    Raises:
        InputError: the profile of `[network]` cannot be read, or a contract in the profile has no
            address.
    """
    network, oracle = config.network, config.oracle
    reader = EventReader.from_profile(
        network.profile,
        network.contracts,
        oracle.address,
        network.options,
        oracle.timelock,
        config.objections.address,
    )
    if config.feed.url is None:
        return reader
    return reader.with_feed(_build_feed_reader(reader.profile))


def _build_feed_reader(profile: Profile) -> RelayReader:
    """Build the reader of the feed's rows.

    The reader takes stakes from the feed only if no event of the chain's profile contains stakes.
    """
    fields_by_event = profile.fields_by_event_type
    has_chain_stakes = any(
        "stake" in fields_by_event.get(kind, ()) for kind in (NodeJoined, NodeUpdated)
    )
    return RelayReader(reads_stakes=not has_chain_stakes)
