"""Refolds the database in one transaction when new rules come into force.

All stored logs are folded again, because rows of the whole history depend on the rules. The new
state is committed only if it equals the preview of these rules, which another process has folded
before. See decision 0247.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.rules_changes import get_rules_in_force
from oracle.domain.scoring.rules import Rules
from oracle.errors import OracleError
from oracle.indexer.block_hooks import BlockHook, HookNote
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import find_rebuild_reason
from oracle.indexer.rebuild import (
    RebuildOptions,
    RebuildResult,
    rebuild_state_up_to,
    renew_cursor_epoch,
)
from oracle.indexer.rules_binding import record_rules_switch
from oracle.indexer.shadow_fold import ShadowFold
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.snapshot_repository import PackedState, encode_state


class RulesSwitchRefusedError(OracleError):
    """Raised if the rules were not switched.

    Nothing was changed then.
    """


@dataclass(frozen=True, slots=True)
class RulesSwitch:
    """A switch to new rules.

    `rules_hash` is the hash of `rules` in the contract. `configured_rules` are the rules in the
    configuration, which is not changed. `preview` is the fold of `rules` up to a final block. It
    is None if a reorg removed the change of the rules, so that the database returns to its
    previous rules.
    """

    rules: Rules
    rules_hash: Hash
    configured_rules: Rules
    preview: ShadowFold | None


def switch_rules(
    store: Store, reader: EventReader, switch: RulesSwitch, rebuild_options: RebuildOptions
) -> RebuildResult:
    """Fold all stored logs with the new rules, and bind the database to them.

    The logs are folded up to the cursor.

    Raises:
        RulesSwitchRefusedError: the rules are not in force at the cursor, or the state differs
            from the preview.
        IncompleteLogsError: raw rows were lost or changed.
    """
    comparison = _PreviewComparison(switch.preview)
    folder = EventFolder(switch.rules, reader, [comparison])
    with rebuild_options.transaction(store) as uow:
        cursor = uow.cursor.get()
        reason = find_rebuild_reason(uow, reader)
        in_force = get_rules_in_force(uow.rounds.get_contract_settings().rules_changes)
        if cursor is None or in_force is None or in_force.rules_hash != switch.rules_hash:
            raise RulesSwitchRefusedError("the rules changed again meanwhile")
        if reason is not None:
            raise RulesSwitchRefusedError(reason)
        renew_cursor_epoch(uow, cursor)
        rebuild_result = rebuild_state_up_to(uow, folder, cursor.number, rebuild_options)
        if switch.preview is not None and (
            rebuild_result.differing or rebuild_result.report_count != 1
        ):
            raise RulesSwitchRefusedError(
                f"the state at block {switch.preview.block} differs from the preview of the rules"
            )
        record_rules_switch(uow, switch.configured_rules, switch.rules)
    return rebuild_result


class _PreviewComparison(BlockHook):
    """Compares a preview with the state at the block of the preview.

    The nodes, the last event and the incidents are compared.
    """

    def __init__(self, preview: ShadowFold | None) -> None:
        self._preview = preview

    @override
    def get_stored_stop_blocks(self, uow: UnitOfWork, blocks: BlockRange) -> Sequence[BlockRef]:
        preview = self._preview
        if preview is None or not blocks.first <= preview.block <= blocks.last:
            return ()
        return (BlockRef(preview.block, ZERO_HASH, ZERO_HASH, 0),)

    @override
    def find_difference(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef
    ) -> HookNote | None:
        assert self._preview is not None  # noqa: S101  # this block is its block
        fold = self._preview.fold
        previewed_state = PackedState(
            fold.ledger.nodes.values(), (), (), fold.last, (), fold.ledger.detector
        )
        stored_state = PackedState(
            uow.nodes.iterate_all(),
            (),
            (),
            uow.last_event.get(),
            (),
            uow.incidents.load_detector(),
        )
        is_equal = encode_state(previewed_state) == encode_state(stored_state)
        return None if is_equal else HookNote("previews", block.number)
