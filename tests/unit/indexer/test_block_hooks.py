"""Features run as hooks of the fold in a fixed order; the fold itself needs none."""

from dataclasses import dataclass, field

from typing_extensions import override

from oracle.daemon.compose import open_index
from oracle.daemon.config.loader import read_config
from oracle.daemon.records import Records, build_configured_rules
from oracle.dispatch.assigner import DrawHook
from oracle.dispatch.probe_wants import ProbeWindowHook
from oracle.indexer.block_hooks import BlockHook, HookNote
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.kickouts.kick_calls import KickoutHook
from oracle.reporting.report_cutter import ReportCutter
from oracle.resources import find_shipped_path
from oracle.store.database import Store
from tests.support.scripted import ScriptedChain, ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import RULES, Follower, folder, mine_blocks


@dataclass
class Diary(BlockHook):
    """A hook that records its calls."""

    name: str
    pages: list[str] = field(default_factory=list)
    first_block = 0

    @override
    def select_stop_blocks(self, headers, newest):
        return headers

    @override
    def on_block(self, uow, contract_state, block, final_number):
        self.pages.append(f"{self.name} at {block.number}")
        return HookNote(self.name, block.number)

    @override
    def on_rewind(self, uow, ancestor, stamp):
        self.pages.append(f"{self.name} back to {ancestor}")


def test_report_hook_runs_before_draw_hook(store: Store):
    config = read_config(find_shipped_path("config/example.toml"))
    with open_index(Records(config, build_configured_rules(config), store)) as index:
        hooks = [type(hook) for hook in index.folder.hooks]
        assert hooks == [ReportCutter, DrawHook, ProbeWindowHook, KickoutHook]


def test_hooks_run_in_order_of_registration(store: Store):
    pages: list[str] = []
    hooks = [Diary("one", pages), Diary("two", pages)]
    follower = Follower(ScriptedChain(), store, folder=EventFolder(RULES, ScriptedReader(), hooks))
    follower.chain.mine_many(1)

    done = follower.step()
    rewind_to_block(follower.chain, store, follower.folder, 0, RebuildOptions())

    assert isinstance(done, CommittedWindow)
    assert [note.name for note in done.notes] == ["one", "two", "one", "two"]
    assert pages[2:] == ["one at 1", "two at 1", "one back to 0", "two back to 0"]


def test_hooks_do_not_change_indexed_state(store: Store, new_store):
    blocks = Traffic(3).blocks(60)
    Follower(mine_blocks(blocks), store, folder=EventFolder(RULES, ScriptedReader())).catch_up()

    with new_store() as hooked_store, store.read_transaction() as uow:
        Follower(mine_blocks(blocks), hooked_store, folder=folder()).catch_up()
        with hooked_store.read_transaction() as hooked:
            assert list(uow.projections.iterate_dump_lines()) == list(
                hooked.projections.iterate_dump_lines()
            )
