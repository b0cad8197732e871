"""Drawn tasks are started on a real chain: by whom, in which order, and never twice."""

from fractions import Fraction

import pytest

from oracle.chain.heads import Heads
from oracle.domain.ids import Address
from oracle.services import convoying
from oracle.services.convoying import convoy_next
from oracle.services.dispatching import plan_dispatch
from oracle.services.publishing import publish_next
from oracle.services.verifying import DrawCheck, DrawVerdict, verify_draw
from oracle.store.outbox_rows import IntentKind
from tests.evm.fixtures import chain
from tests.evm.network import ETHER, Status
from tests.services.dispatch_office import (
    DispatchOffice,
    fresh_stage,
    key_of,
    office,
    premises,
    settings,
)
from tests.services.office_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "office", "premises"]


def verified(office: DispatchOffice, task: bytes) -> DrawCheck:
    assert office.dispatch is not None
    return verify_draw(
        office.source, office.store, office.folder.reader, office.dispatch, key_of(task)
    )


def test_the_drawn_node_gets_the_task_two_blocks_after_its_creation(office: DispatchOffice):
    network = office.premises.network
    task = network.create()
    created = office.premises.chain.block
    office.turn()
    assert office.standing() == {}

    office.block()
    (draw,) = office.draws(task)
    assert draw.seed_block == created + 1
    office.block()

    assert network.status(task) is Status.STARTED
    assert office.node_of(task) == draw.node
    assert office.premises.chain.block == created + 2
    assert office.start_states() == ["mined"]
    check = verified(office, task)
    assert (check.verdict, check.drawings[-1].node) == (DrawVerdict.AGREES, draw.node)


def test_of_two_tasks_for_one_node_the_more_valuable_starts(office: DispatchOffice):
    network = office.premises.network
    for node in network.nodes[1:3]:
        network.by(node, network.does.pause())
    cheap, dear = network.create(fee=ETHER), network.create(fee=2 * ETHER)
    office.turn()
    for _ in range(3):
        office.block()

    assert network.status(dear) is Status.STARTED
    assert network.status(cheap) is Status.QUEUED
    assert office.node_of(dear) == network.nodes[0].lower()
    assert verified(office, dear).verdict is DrawVerdict.AGREES
    assert verified(office, cheap).verdict is DrawVerdict.WAITING


def test_tasks_of_a_group_go_to_different_nodes(office: DispatchOffice):
    network = office.premises.network
    group = b"g" * 32
    tasks = [network.create(group=group, group_size=3) for _ in range(3)]
    office.turn()
    for _ in range(3):
        office.block()

    assert len({office.node_of(task) for task in tasks}) == 3
    assert {verified(office, task).verdict for task in tasks} == {DrawVerdict.AGREES}


def test_a_drawn_node_that_pauses_is_drawn_for_anew(office: DispatchOffice):
    network, starts = office.premises.network, office.starts
    task = network.create()
    office.index()
    office.mine()
    office.index()
    (first,) = office.draws(task)
    # Drawn, planned, not sent yet.
    plan_dispatch(starts, office.source.heads())
    by_address = {node.lower(): node for node in network.nodes}
    network.by(by_address[first.node], network.does.pause())
    for _ in range(4):
        office.turn()
        office.mine()
    office.turn()

    over, second = office.draws(task)
    assert over.void_block is not None
    assert network.status(task) is Status.STARTED
    assert office.node_of(task) == second.node != first.node
    assert office.start_states() == ["superseded", "mined"]
    assert len(verified(office, task).drawings) == 2


def test_a_full_queue_drops_the_cheapest(office: DispatchOffice):
    network = office.premises.network
    office.restart(dispatch=settings(alpha=Fraction(2, 3)))
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    tasks = [network.create(fee=fee * ETHER) for fee in (3, 1, 2)]
    for _ in range(3):
        office.turn()
        office.mine()

    states = [network.status(task) for task in tasks]
    assert states == [Status.QUEUED, Status.ABORTED, Status.QUEUED]
    assert office.states(IntentKind.DROP_TASK) == ["mined"]


def test_a_dozen_tasks_start_in_one_block(office: DispatchOffice):
    network = office.premises.network
    for node in network.nodes[3:6]:
        network.join(node)
    tasks = [network.create() for _ in range(6)]
    office.turn()
    office.block()
    office.block()

    assert {network.status(task) for task in tasks} == {Status.STARTED}
    assert len({office.node_of(task) for task in tasks}) == 6
    assert {verified(office, task).verdict for task in tasks} == {DrawVerdict.AGREES}


def test_a_dispatcher_that_picks_for_itself_is_found_out(office: DispatchOffice):
    network = office.premises.network
    task = network.create()
    office.index()
    office.mine()
    office.index()
    (draw,) = office.draws(task)
    other = next(node for node in network.nodes[:3] if node.lower() != draw.node)
    network.by(network.admin, network.does.setDispatcher(network.dispatcher))
    network.start(task, other)
    office.index()

    check = verified(office, task)
    assert check.verdict is DrawVerdict.DIFFERS
    assert check.started_by == other.lower()
    assert check.drawings[-1].node == draw.node


def test_a_start_without_any_draw_is_found_out(office: DispatchOffice):
    network = office.premises.network
    task = network.create()
    network.by(network.admin, network.does.setDispatcher(network.dispatcher))
    network.start(task, network.nodes[0])
    office.index()

    # Drawn at the end of the block in between, by whatever its hash says.
    check = verified(office, task)
    agrees = check.drawings[-1].node == network.nodes[0].lower()
    assert check.verdict is (DrawVerdict.AGREES if agrees else DrawVerdict.DIFFERS)
