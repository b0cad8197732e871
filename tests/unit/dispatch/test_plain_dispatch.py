"""Draws equal those of the reference implementation, whatever the windows, forks and restarts."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from oracle.dispatch.assigner import DrawHook, load_active_draws
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.errors import TransientError
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.folder import EventFolder
from oracle.indexer.loop import IngestState
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING, RELAY_WEIGHTING, Weighting
from tests.support.examples import examples
from tests.support.scripted import ScriptedReader
from tests.support.txmgr.dispatch_harness import build_dispatch_settings
from tests.support.txmgr.follower import RULES as TRIED, Follower
from tests.support.txmgr.stores import NewStore
from tests.unit.dispatch.market import Market
from tests.unit.dispatch.plain_dispatch import drawn_plainly

START = 3
# One timeout excludes a node for a while, with and without hysteresis.
RULES = [
    replace(TRIED, exclude_enter=UNIT // 2, exclude_exit=out * UNIT // 100) for out in (50, 75)
]


@dataclass
class Stumble(BlockHook):
    """Rolls back the transaction of a window at its n-th block; 0: never again."""

    left: int = 0
    first_block = START

    @override
    def select_stop_blocks(self, headers, newest):
        return headers

    @override
    def on_block(self, uow, contract_state, block, final_number):
        self.left -= 1
        if self.left == 0:
            raise TransientError("the database went away")


@dataclass
class DrawingFollower(Follower):
    """Follows a chain, and draws nodes for its tasks."""

    chosen: DispatchSettings = field(default_factory=build_dispatch_settings)
    stumble: Stumble = field(default_factory=Stumble)

    @override
    def restart(self) -> None:
        hooks = [DrawHook(self.chosen, ScriptedReader()), self.stumble]
        self.folder = EventFolder(self.chosen.rules, ScriptedReader(), hooks)
        self.ingest = IngestState()

    def follow(self, failing_block: int) -> None:
        self.stumble.left = failing_block
        with suppress(TransientError):
            self.catch_up()
        self.stumble.left = 0
        self.catch_up()

    @property
    def active(self) -> dict[TaskKey, Address]:
        with self.store.read_transaction() as uow:
            return load_active_draws(uow)

    def draws(self) -> set[StoredDraw]:
        with self.store.read_transaction() as uow:
            return {*uow.draws.list_active(), *uow.draws.list_voided(10_000)}


Turn = tuple[int, int, str, int]
TURNS = st.tuples(
    # The numbers of mined blocks, and of blocks in a window.
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from(["goes on", "goes on", "restarts", "reorg", "rebuild"]),
    # The block of a window at which its transaction fails; 0: none.
    st.sampled_from([0, 0, 0, 1, 2, 3]),
)


@examples(40)
@given(
    seed=st.integers(0, 2**16),
    turns=st.lists(TURNS, min_size=3, max_size=10),
    rules=st.sampled_from(RULES),
    weighting=st.sampled_from([CRYNUX_WEIGHTING, RELAY_WEIGHTING]),
)
@pytest.mark.slow
def test_draws_match_reference_dispatcher_through_reorgs_and_restarts(
    new_sqlite_store: NewStore, seed: int, turns: list[Turn], rules: Rules, weighting: Weighting
):
    chosen = build_dispatch_settings(START, rules=rules, weighting=weighting)
    market = Market(Random(seed), rules)  # noqa: S311  # repeatable, no secret
    chain = market.chain
    with new_sqlite_store() as store:
        daemon = DrawingFollower(chain, store, chosen=chosen)
        daemon.restart()
        for blocks, at_once, what, failing_block in turns:
            chain.most_blocks = at_once
            if what == "reorg":
                chain.fork(min(blocks, chain.newest.number - chain.fetch_heads().final.number))
            market.mine(blocks + 1, daemon.active)
            if what == "restarts":
                daemon.restart()
            daemon.follow(failing_block)
            if what == "rebuild":
                rebuild_state(store, daemon.folder, RebuildOptions())
            assert daemon.draws() == drawn_plainly(chosen, chain)
