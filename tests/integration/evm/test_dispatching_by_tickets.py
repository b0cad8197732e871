"""Pocket's policies draw on a real chain from outcomes alone, equally for every reader."""

from pathlib import Path

import pytest

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.ids import Address
from oracle.indexer.loop import ingest_next_window
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.queries.selection.draw_check import (
    DrawMadeAgain,
    DrawVerdict,
    verify_all_draws,
    verify_draw,
)
from oracle.store.database import Store
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Status
from tests.support.txmgr.dispatch_office import (
    DispatchOffice,
    fresh_stage,
    key_of,
    office,
    premises,
    settings,
)
from tests.support.txmgr.office_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "office", "premises"]

POLICIES = pytest.mark.parametrize("policy", ["article", "portal_api_head"])


def dispatch_with_policy(office: DispatchOffice, policy: str) -> None:
    office.restart(dispatch=settings(office.premises.built_at, policy=policy))


def get_verification_arguments(
    office: DispatchOffice,
) -> tuple[ChainSource, Store, EventReader, DispatchSettings]:
    """Return the arguments of the verification."""
    assert office.dispatch is not None
    return office.source, office.store, office.folder.reader, office.dispatch


def last_draw(office: DispatchOffice, task: bytes) -> DrawMadeAgain:
    """Repeat the draw of a task; check that it went to the drawn node,
    and return its candidates.
    """
    check = verify_draw(*get_verification_arguments(office), key_of(task))
    assert check.verdict is DrawVerdict.AGREES
    return check.draws[-1]


def weight_of(drawing: DrawMadeAgain, node: Address) -> int:
    """Return the weight of a candidate."""
    return next(candidate.weight for candidate in drawing.candidates if candidate.node == node)


def runs(office: DispatchOffice) -> bytes:
    """Create a task that is started on its drawn node."""
    task = office.premises.network.create()
    office.turn()
    office.block()
    office.block()
    assert office.premises.network.status(task) is Status.STARTED
    return task


def is_timed_out(office: DispatchOffice, task: bytes) -> Address:
    """Let the node of the task time out; return the node."""
    network = office.premises.network
    network.chain.at(network.time_limit(task) + 1)
    network.time_out(task)
    office.index()
    return Address(office.node_of(task))


@POLICIES
def test_drawn_node_gets_task_and_draw_is_reproducible(office: DispatchOffice, policy: str):
    dispatch_with_policy(office, policy)
    task = runs(office)
    drawing = last_draw(office, task)
    assert drawing.node == office.node_of(task)
    # No node has run a task yet.
    assert [candidate.weight for candidate in drawing.candidates] == [10, 10, 10]


@pytest.mark.parametrize(("policy", "tickets"), [("article", 0), ("portal_api_head", 10)])
def test_unresponsive_node_is_excluded_only_by_article_policy(
    office: DispatchOffice, policy: str, tickets: int
):
    dispatch_with_policy(office, policy)
    failed = is_timed_out(office, runs(office))
    drawing = last_draw(office, runs(office))
    assert weight_of(drawing, failed) == tickets
    assert (drawing.node == failed) <= (tickets > 0)


def test_article_policy_gives_unresponsive_node_one_ticket_after_six_seconds(
    office: DispatchOffice,
):
    dispatch_with_policy(office, "article")
    failed = is_timed_out(office, runs(office))
    office.premises.chain.later(6)
    assert weight_of(last_draw(office, runs(office)), failed) == 1


@POLICIES
def test_ticket_draws_are_independent_of_window_size_restarts_and_reorgs(
    office: DispatchOffice, new_sqlite_store: NewStore, tmp_path: Path, policy: str
):
    dispatch_with_policy(office, policy)
    tasks = []
    for _ in range(3):
        tasks.append(runs(office))
        is_timed_out(office, tasks[-1])
    office.premises.chain.rpc("anvil_reorg", 1, [])
    tasks += [runs(office) for _ in range(2)]
    drawn = [office.draws(task) for task in tasks]
    all_draws = verify_all_draws(*get_verification_arguments(office))
    assert (all_draws.verdict, all_draws.started) == (DrawVerdict.AGREES, 5)

    for blocks, restarts in ((1000, False), (1, False), (2, True)):
        with new_sqlite_store() as store:
            other_office = DispatchOffice(office.premises, store, tmp_path)
            dispatch_with_policy(other_office, policy)
            other_office.ingest.max_blocks = blocks
            while (
                ingest_next_window(
                    other_office.source, store, other_office.folder, other_office.ingest
                )
                is not None
            ):
                if restarts:
                    other_office.restart()
                other_office.ingest.max_blocks = blocks
            assert [other_office.draws(task) for task in tasks] == drawn
            other_office.close()


def test_rebuild_restores_ticket_state(office: DispatchOffice):
    dispatch_with_policy(office, "article")
    failed = is_timed_out(office, runs(office))
    rebuild_state(office.store, office.folder, RebuildOptions())
    assert weight_of(last_draw(office, runs(office)), failed) == 0
    assert verify_all_draws(*get_verification_arguments(office)).verdict is DrawVerdict.AGREES
