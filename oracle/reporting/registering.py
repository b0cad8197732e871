"""Finds the nodes that a report registers, from the database or from nodes in memory.

Both ways must give the same result, or two reporters would sign different rounds.
"""

from collections.abc import Mapping, Sequence

from oracle.domain.ids import Address
from oracle.domain.registrations import Registrations
from oracle.domain.reports.registration import (
    FirstEvents,
    RegistrationRules,
    free_indexes,
    is_known,
    registrations_at,
)
from oracle.domain.reports.rounds import Rounds
from oracle.domain.state.node import Membership, Node
from oracle.store.database import UnitOfWork


def registrations_now(
    uow: UnitOfWork, rounds: Rounds, time: int, registering: RegistrationRules
) -> Registrations:
    """Return the nodes that a report registers as of the cursor, whose block has this `time`."""
    waiting = uow.registrations
    newcomers = waiting.scored(registering.min_scores)
    hurt = uow.nodes.named(waiting.unscored(registering.min_scores, time))
    excluded = [each.address for each in hurt.values() if is_known(each, time, registering)]
    newcomers += waiting.timed_out(excluded)
    free = free_indexes(rounds, time, waiting.members)
    return registrations_at(rounds, newcomers, free, registering.max_words)


def registrations_among(
    rounds: Rounds,
    nodes: Mapping[Address, Node],
    first_events: FirstEvents,
    time: int,
    registering: RegistrationRules,
) -> Registrations:
    """Return the same registrations from nodes in memory and the events that introduced them."""
    waiting = [
        node
        for node, each in nodes.items()
        if node not in rounds.index_by_node and is_known(each, time, registering)
    ]
    newcomers = [first_events.newcomer(node) for node in waiting]

    def members(asked: Sequence[Address]) -> set[Address]:
        found = (nodes.get(node) for node in asked)
        return {
            each.address
            for each in found
            if each is not None and each.membership is Membership.MEMBER
        }

    free = free_indexes(rounds, time, members)
    found = [one for one in newcomers if one is not None]
    return registrations_at(rounds, found, free, registering.max_words)
