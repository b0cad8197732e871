"""All draws of a network verified in one pass: the same as each by itself."""

from web3 import Web3

from oracle.queries.selection.draw_check import (
    AllDraws,
    DrawVerdict,
    verify_all_draws,
    verify_draw,
)
from tests.support.evm.fixtures import chain
from tests.support.txmgr.dispatch_office import (
    DispatchOffice,
    fresh_stage,
    key_of,
    office,
    premises,
)
from tests.support.txmgr.office_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "office", "premises"]


def verified_all(office: DispatchOffice) -> AllDraws:
    assert office.dispatch is not None
    return verify_all_draws(office.source, office.store, office.folder.reader, office.dispatch)


def verdict_of(office: DispatchOffice, task: bytes) -> DrawVerdict:
    assert office.dispatch is not None
    where = (office.source, office.store, office.folder.reader, office.dispatch)
    return verify_draw(*where, key_of(task)).verdict


def test_network_without_starts_is_reported_as_not_dispatched(office: DispatchOffice):
    office.premises.network.create()
    office.turn()
    told = verified_all(office)
    assert (told.verdict, told.started_count) == (DrawVerdict.NOT_DISPATCHED, 0)


def test_tasks_started_as_drawn_agree(office: DispatchOffice):
    network = office.premises.network
    tasks = [network.create(group=b"g" * 32, group_size=3) for _ in range(3)]
    later = network.create()
    office.turn()
    for _ in range(4):
        office.block()

    each = [verdict_of(office, task) for task in (*tasks, later)]
    told = verified_all(office)
    assert (told.verdict, told.differing) == (DrawVerdict.AGREES, ())
    assert told.started_count == each.count(DrawVerdict.AGREES) == 3


def test_task_started_on_another_node_is_reported_as_differing(office: DispatchOffice):
    network = office.premises.network
    kept, defied = network.create(), network.create()
    office.index()
    office.mine()
    office.index()
    drawn = office.standing()
    (stranger,) = [node for node in network.nodes[:3] if node.lower() not in drawn.values()]
    # Somebody else dispatches now, who keeps one draw only.
    network.by(network.admin, network.does.setDispatcher(network.dispatcher))
    network.start(kept, Web3.to_checksum_address(drawn[key_of(kept)]))
    network.start(defied, stranger)
    office.index()

    assert verdict_of(office, kept) is DrawVerdict.AGREES
    assert verdict_of(office, defied) is DrawVerdict.DIFFERS
    told = verified_all(office)
    assert (told.verdict, told.started_count) == (DrawVerdict.DIFFERS, 2)
    (differing,) = told.differing
    assert differing.task == key_of(defied)
    assert (differing.node, differing.drawn_node) == (stranger.lower(), drawn[key_of(defied)])
