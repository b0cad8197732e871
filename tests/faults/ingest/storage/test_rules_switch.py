"""A switch to the rules in force equals a stop and a rebuild, and a reorg switches back.

See docs/how-to/change-the-rules.md#the-switch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Hash
from oracle.domain.scoring.rules import Rules
from oracle.indexer.folder import EventFolder
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.indexer.rules_binding import (
    find_replacement_rules,
    get_bound_rules,
    get_rules_replacement_block,
)
from oracle.indexer.rules_switch import RulesSwitch, RulesSwitchRefusedError, switch_rules
from oracle.indexer.shadow_fold import ShadowFold, advance_shadow_fold
from oracle.reporting.sanity_gate import mark_unsignable_reports_not_due
from oracle.store.database import UnitOfWork
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.chain.network_logs import make_hash
from tests.support.ingest.event_encoding import encode_oracle_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, Indexer

NEXT = replace(CRYNUX, tau_seconds=900, penalty=UNIT // 4, pool_size=5)
OLD_HASH = Hash(make_hash(7))
NEXT_HASH = Hash(make_hash(8))


@dataclass
class Following:
    """A chain on which the rules change, and a reporter that indexes it."""

    chain: FakeChain
    indexer: Indexer

    def set_rules(self, rules_hash: Hash) -> None:
        self.chain.emit(encode_oracle_log("RulesSet", rulesHash=rules_hash))
        self.indexer.index()

    def fold_preview(self, rules: Rules = NEXT) -> ShadowFold:
        """Fold other rules up to the final block, as the process beside the daemon does."""
        with self.indexer.store.read_transaction() as uow:
            cursor = uow.cursor.get()
        assert cursor is not None
        assert cursor.final_number is not None
        reader = self.indexer.folder.reader
        start = ShadowFold.start(rules)
        return advance_shadow_fold(self.indexer.store, reader, start, cursor.final_number)

    def switch(
        self,
        preview: ShadowFold | None,
        rules: Rules = NEXT,
        rules_hash: Hash = NEXT_HASH,
        options: RebuildOptions | None = None,
    ) -> None:
        indexer = self.indexer
        switch = RulesSwitch(rules, rules_hash, CRYNUX, preview)
        switch_rules(indexer.store, indexer.folder.reader, switch, options or RebuildOptions())
        continue_with(indexer, rules)

    def read_facts(self) -> tuple[str, Rules | None, str]:
        """Return the digest of the state, the rules after a switch, and the bound rules."""
        with self.indexer.store.read_transaction() as uow:
            bound_rules = get_bound_rules(uow)
            assert bound_rules is not None
            return self.indexer.digest(), find_replacement_rules(uow, CRYNUX), bound_rules.sha256


@pytest.fixture
def following(fake_chain: FakeChain, synced_indexer: Indexer) -> Following:
    """Return a reporter at the head of a chain whose rules in force are the reporter's."""
    following = Following(fake_chain, synced_indexer)
    following.set_rules(OLD_HASH)
    rebuild_state(synced_indexer.store, synced_indexer.folder, RebuildOptions())
    fake_chain.live(2 * FINALITY)
    synced_indexer.index()
    return following


def continue_with(indexer: Indexer, rules: Rules) -> None:
    """Open all parts of a reporter again, as the daemon does after a switch."""
    indexer.rules = rules
    indexer.restart()


def stop_and_rebuild(indexer: Indexer, rules: Rules) -> None:
    """Change the rules as an operator does: stop, configure, rebuild, start."""
    folder = EventFolder(rules, indexer.folder.reader)
    rebuild_state(indexer.store, folder, RebuildOptions())
    continue_with(indexer, rules)


def read_rows(indexer: Indexer) -> dict[str, list[object]]:
    """Return all rows that are determined by the chain and the rules, the undo journal too."""
    with indexer.store.read_transaction() as uow:
        return {
            table.name: [row.values for row in uow.projections.iterate_rows(table)]
            for table in uow.projections.list_compared_tables()
        }


def list_report_bytes(indexer: Indexer, after_block: int) -> list[tuple[int, str]]:
    with indexer.store.read_transaction() as uow:
        return [
            (stored.report.as_of.number, stored.report.root)
            for stored in uow.reports.list_between(after_block + 1, 2**62)
        ]


@pytest.mark.parametrize("seed", range(3))
def test_rules_switch_gives_the_same_rows_and_reports_as_a_rebuild(
    following: Following, open_indexer: OpenIndexer, seed: int
):
    random = Random(seed)  # noqa: S311  # repeatable, no secret
    chain, switching = following.chain, following.indexer
    chain.traffic.random.seed(seed)
    stopping = open_indexer(*chain.urls)

    def live_and_fork() -> None:
        for _ in range(random.randrange(1, 4)):
            chain.live(random.randrange(1, 12), on=chain.back(random.randrange(FINALITY - 1)))
            for indexer in (switching, stopping):
                if random.randrange(3) == 0:
                    indexer.restart()
                indexer.index()

    live_and_fork()
    preview = following.fold_preview()
    live_and_fork()
    following.set_rules(NEXT_HASH)
    chain.live(random.randrange(FINALITY - 2))
    for indexer in (switching, stopping):
        indexer.index()

    following.switch(preview)
    stop_and_rebuild(stopping, NEXT)

    assert read_rows(switching) == read_rows(stopping)
    switched_at = switching.cursor[0]
    # The fork removes blocks that were folded with the rules before.
    base = chain.live(random.randrange(1, 20), on=chain.back(0))
    chain.live(20, on=chain.back(random.randrange(1, 3), base))
    for indexer in (switching, stopping):
        indexer.index()
    assert read_rows(switching) == read_rows(stopping)
    reports = list_report_bytes(switching, switched_at)
    assert reports == list_report_bytes(stopping, switched_at)
    assert reports


def test_reorg_of_a_rules_change_restores_the_previous_rules(
    following: Following, open_indexer: OpenIndexer
):
    chain, base = following.chain, following.chain.head
    preview = following.fold_preview()
    unchanged = open_indexer(*chain.urls)
    following.set_rules(NEXT_HASH)
    chain.live(2)
    following.indexer.index()
    following.switch(preview)

    chain.live(FINALITY, on=base)
    following.indexer.index()
    assert following.indexer.cursor[1] == chain.head.hash
    following.switch(None, CRYNUX, OLD_HASH)
    unchanged.index()

    assert read_rows(following.indexer) == read_rows(unchanged)
    assert following.read_facts()[1:] == (CRYNUX, identify_rules(CRYNUX).sha256)


def change_a_node(preview: ShadowFold) -> None:
    node = next(iter(preview.fold.ledger.nodes.values()))
    node.base -= 1


def drop_a_node(preview: ShadowFold) -> None:
    preview.fold.ledger.nodes.popitem()


def move_the_last_event(preview: ShadowFold) -> None:
    assert preview.fold.last is not None
    preview.fold.last = replace(preview.fold.last, time=preview.fold.last.time + 1)


@pytest.mark.parametrize("damage", [change_a_node, drop_a_node, move_the_last_event])
def test_rules_are_not_switched_if_state_differs_from_preview(
    following: Following, damage: Callable[[ShadowFold], None]
):
    preview = following.fold_preview()
    damage(preview)
    following.set_rules(NEXT_HASH)
    before = following.read_facts()

    with pytest.raises(RulesSwitchRefusedError, match="differs from the preview"):
        following.switch(preview)

    assert following.read_facts() == before
    following.switch(following.fold_preview())
    assert following.read_facts()[1:] == (NEXT, identify_rules(NEXT).sha256)


def test_switch_to_rules_not_in_force_is_rejected(following: Following):
    preview = following.fold_preview()
    before = following.read_facts()
    with pytest.raises(RulesSwitchRefusedError, match="changed again"):
        following.switch(preview)
    assert following.read_facts() == before


def test_switch_with_a_preview_above_the_cursor_is_rejected(following: Following):
    preview = following.fold_preview()
    preview.block = following.indexer.cursor[0] + 100
    following.set_rules(NEXT_HASH)
    with pytest.raises(RulesSwitchRefusedError, match="differs from the preview"):
        following.switch(preview)


def test_restart_completes_an_interrupted_rules_switch(following: Following):
    preview = following.fold_preview()
    following.set_rules(NEXT_HASH)
    before = following.read_facts()
    rows = read_rows(following.indexer)

    def die(_block: int, _last: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        following.switch(preview, options=RebuildOptions(progress=die))
    following.indexer.restart()

    assert following.read_facts() == before
    assert read_rows(following.indexer) == rows
    following.switch(preview)
    assert following.read_facts()[1:] == (NEXT, identify_rules(NEXT).sha256)


def iter_due_blocks(uow: UnitOfWork) -> Iterator[int]:
    cuts = uow.reports.list_headers_since(0)
    return (header.as_of for header in mark_unsignable_reports_not_due(uow, cuts) if header.is_due)


def test_report_built_with_other_rules_is_not_due(following: Following):
    preview = following.fold_preview()
    chain = following.chain
    indexer = following.indexer
    following.set_rules(NEXT_HASH)
    with indexer.store.read_transaction() as uow:
        assert any(iter_due_blocks(uow))

    following.switch(preview)

    with indexer.store.read_transaction() as uow:
        assert get_rules_replacement_block(uow) == indexer.cursor[0]
        assert not any(iter_due_blocks(uow))
    chain.live(2 * FINALITY)
    indexer.index()
    with indexer.store.read_transaction() as uow:
        assert min(iter_due_blocks(uow)) > get_rules_replacement_block(uow)
    # Reports of blocks that a reorg replaced are cut again, under the present rules.
    chain.live(FINALITY, on=chain.back(FINALITY - 1))
    indexer.index()
    with indexer.store.read_transaction() as uow:
        assert get_rules_replacement_block(uow) <= indexer.cursor[0] - FINALITY
