"""A part of what a reader reads: fewer contracts or events, to fetch only what is missing."""

from copy import copy

from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.coverage import IngestScope
from oracle.domain.ids import Address


def part_of(reader: EventReader, scope: IngestScope) -> EventReader:
    """Return a reader that asks for this scope only, and understands all that the whole one does.

    It is for fetching: what it fetched is folded by the whole reader.
    """
    part = copy(reader)
    part.addresses = tuple(each for each in reader.addresses if each in scope.addresses)
    part.topics = tuple(each for each in reader.topics if each in scope.topics)
    part.call_topics = reader.call_topics & frozenset(scope.topics)
    selectors: dict[Address, set[str]] = {}
    for each in scope.selectors:
        address, _, four_bytes = each.partition(":")
        selectors.setdefault(Address(address), set()).add(four_bytes)
    part.selectors = {to: frozenset(fours) for to, fours in selectors.items()}
    return part
