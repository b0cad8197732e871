"""Finds the nodes that a report registers, from the database or from nodes in memory.

Both ways must give the same result, or two reporters would sign different rounds.
"""

from collections.abc import Mapping, Sequence

from oracle.domain.ids import Address
from oracle.domain.registrations import Registrations
from oracle.domain.reports.registration import (
    FirstEvents,
    RegistrationRules,
    choose_registrations,
    find_reusable_indexes,
    is_reportable,
)
from oracle.domain.reports.rounds import Rounds
from oracle.domain.state import Membership, Node
from oracle.store.database import UnitOfWork


def find_registrations(
    uow: UnitOfWork, rounds: Rounds, time: int, registration_rules: RegistrationRules
) -> Registrations:
    """Return the nodes that a report as of the cursor registers; `time` is its block time."""
    repository = uow.registrations
    candidates = repository.list_scored_newcomers(registration_rules.min_scores)
    unscored_nodes = uow.nodes.get_many(
        repository.list_penalised_members(registration_rules.min_scores, time)
    )
    excluded_addresses = [
        node.address
        for node in unscored_nodes.values()
        if is_reportable(node, time, registration_rules)
    ]
    candidates += repository.list_first_timeouts(excluded_addresses)
    free = find_reusable_indexes(rounds, time, repository.filter_members)
    return choose_registrations(rounds, candidates, free, registration_rules.max_words)


def find_registrations_in_memory(
    rounds: Rounds,
    nodes: Mapping[Address, Node],
    first_events: FirstEvents,
    time: int,
    registration_rules: RegistrationRules,
) -> Registrations:
    """Return what `find_registrations` would, from nodes in memory and their first events."""
    waiting_addresses = [
        address
        for address, node in nodes.items()
        if address not in rounds.index_by_node and is_reportable(node, time, registration_rules)
    ]
    newcomers = [first_events.find_newcomer(address) for address in waiting_addresses]

    def find_members(addresses: Sequence[Address]) -> set[Address]:
        known_nodes = (nodes.get(address) for address in addresses)
        return {
            known_node.address
            for known_node in known_nodes
            if known_node is not None and known_node.membership is Membership.MEMBER
        }

    free = find_reusable_indexes(rounds, time, find_members)
    known_newcomers = [newcomer for newcomer in newcomers if newcomer is not None]
    return choose_registrations(rounds, known_newcomers, free, registration_rules.max_words)
