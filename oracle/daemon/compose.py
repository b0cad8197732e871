"""Puts together what reads events and folds them, from the settings."""

from oracle.chain.profiles.event_reader import EventReader
from oracle.daemon.config.loader import Config
from oracle.daemon.config.section_values import feed_reader


def open_reader(config: Config) -> EventReader:
    """Return what turns logs into events, and a feed's rows beside them; asks no endpoint.

    Raises:
        InputError: the profile of `[network]` cannot be read, or a contract is missing.
    """
    network = config.network
    reader = EventReader.open(
        network.profile, network.contracts, config.oracle.address, network.options
    )
    return reader if config.feed.url is None else reader.beside(feed_reader(reader.profile))
