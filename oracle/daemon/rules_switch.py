"""Switches the daemon to rules that came into force, or back to old rules after a reorg.

The switch folds the database again. Afterwards the daemon opens all its components again
(`daemon.main_loop`). See docs/how-to/change-the-rules.md#the-switch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from oracle.daemon.compose import Index, compute_rules_hash
from oracle.daemon.config.oracle_section import build_report_settings
from oracle.daemon.records import build_configured_rules
from oracle.domain.ids import Hash
from oracle.domain.reports.report import hash_rules_and_settings
from oracle.domain.reports.rules_changes import (
    RulesChanges,
    get_rules_in_force,
    list_changes_in_force,
)
from oracle.domain.scoring.rules import Rules
from oracle.errors import OracleError
from oracle.indexer.rebuild import IncompleteLogsError, RebuildOptions
from oracle.indexer.rules_binding import find_replacement_rules
from oracle.indexer.rules_switch import RulesSwitch, RulesSwitchRefusedError, switch_rules
from oracle.indexer.shadow_fold import ShadowFold, ShadowStage
from oracle.queries.api.rules_preview import PREVIEW_FOLDER
from oracle.queries.rules_texts import find_rules_text, parse_rules_text
from oracle.store.database import UnitOfWork
from oracle.telemetry.logger import get_logger


class RulesSwitchedError(OracleError):
    """The database was folded with other rules; the daemon must open its components again."""


@dataclass(slots=True)
class RulesSwitcher:
    """Switches the database to the rules in force at the cursor.

    `mark_progress` is called while the logs are folded. After a refusal, this process does not try
    the same rules again, except if only their preview was missing.
    """

    index: Index
    epoch: int
    mark_progress: Callable[[], None]
    _refusal: tuple[Hash, str] | None = None
    _own_hash: Hash = field(init=False)

    def __post_init__(self) -> None:
        self._own_hash = compute_rules_hash(self.index.config, self.index.reader)

    def switch_rules_if_due(self) -> str | None:
        """Switch to the rules in force if they differ, or return why this is impossible.

        The result is None if no switch is needed.

        Raises:
            RulesSwitchedError: the database was switched.
        """
        index = self.index
        with index.store.read_transaction() as uow:
            changes = uow.rounds.get_contract_settings().rules_changes
            in_force = get_rules_in_force(changes)
            if in_force is None or in_force.rules_hash == self._own_hash:
                return None
            if self._refusal is not None and self._refusal[0] == in_force.rules_hash:
                return self._refusal[1]
            try:
                switch = self._prepare_switch(uow, changes, in_force.rules_hash)
            except RulesSwitchRefusedError as error:
                return f"rules {in_force.rules_hash}: {error}"
        options = RebuildOptions(
            progress=lambda _block, _last: self.mark_progress(), lease_epoch=self.epoch
        )
        try:
            switch_result = switch_rules(index.store, index.reader, switch, options)
        except (RulesSwitchRefusedError, IncompleteLogsError) as error:
            self._refusal = in_force.rules_hash, f"rules {in_force.rules_hash}: {error}"
            get_logger().error("rules_switch_failed", rules=in_force.rules_hash, reason=str(error))
            return self._refusal[1]
        get_logger().warning(
            "rules_switched",
            rules=in_force.rules_hash,
            block=switch_result.last_block,
            logs=switch_result.log_count,
        )
        raise RulesSwitchedError(f"switched to rules {in_force.rules_hash}")

    def _prepare_switch(
        self, uow: UnitOfWork, changes: RulesChanges, rules_hash: Hash
    ) -> RulesSwitch:
        """Run all checks that need no fold, and return the switch to the rules in force.

        Raises:
            RulesSwitchRefusedError: an operator has to change the rules.
        """
        index = self.index
        rules = get_known_rules(index, uow, rules_hash)
        if index.dispatch_settings is not None:
            raise RulesSwitchRefusedError(
                "[dispatch] is set; stop the daemon, set [rules], set dispatch.start_block above "
                "the cursor, and run `qos-oracle resync rebuild`"
            )
        was_removed = all(
            change.rules_hash != self._own_hash for change in list_changes_in_force(changes)
        )
        is_return = index.config.rules.switched_rules is not None and was_removed
        preview = None if is_return else self._load_preview(uow, rules)
        return RulesSwitch(rules, rules_hash, index.config.rules.build_rule_set(), preview)

    def _load_preview(self, uow: UnitOfWork, rules: Rules) -> ShadowFold:
        index = self.index
        cursor = uow.cursor.get()
        folder = index.config.rules.announced_folder / PREVIEW_FOLDER
        final_number = None if cursor is None else cursor.final_number
        if cursor is not None and final_number is not None:
            shadow_stage = ShadowStage(folder, index.reader)
            shadow_fold = shadow_stage.load(uow, rules, min(final_number, cursor.number))
            if shadow_fold.block >= 0:
                return shadow_fold
        raise RulesSwitchRefusedError(
            "there is no preview of the new rules to compare with; stop the daemon, set [rules], "
            "and run `qos-oracle resync rebuild`"
        )


def get_known_rules(index: Index, uow: UnitOfWork, rules_hash: Hash) -> Rules:
    """Return the rules with this hash from the database or from an announcement.

    Raises:
        RulesSwitchRefusedError: this host does not have the rules, or the settings do not fit
            them.
    """
    config = index.config
    stored_rules = [uow.rule_sets.find_rules(entry.sha256) for entry in uow.rule_sets.list_all()]
    text = find_rules_text(rules_hash, "", config.rules.announced_folder)
    if text is not None:
        try:
            stored_rules.append(parse_rules_text(text))
        except ValueError as error:
            raise RulesSwitchRefusedError(
                f"this version cannot read them ({error}); upgrade the program"
            ) from error
    for rules in stored_rules:
        if rules is None:
            continue
        settings = build_report_settings(config.oracle, rules)
        if hash_rules_and_settings(rules, index.reader.identity, settings) == rules_hash:
            return rules
    raise RulesSwitchRefusedError(
        "they are not on this host; put their file into rules.announced_folder"
        if text is None
        else "they need another profile or other settings in [oracle] than this host has"
    )


def has_known_rules(index: Index, rules_hash: Hash) -> bool:
    """Return whether the daemon can switch to the rules with this hash by itself."""
    with index.store.read_transaction() as uow:
        try:
            get_known_rules(index, uow, rules_hash)
        except RulesSwitchRefusedError:
            return False
    return True


def has_other_rules(index: Index) -> bool:
    """Return whether another process has switched the rules since the index was opened."""
    with index.store.read_transaction() as uow:
        configured_rules = index.config.rules.build_rule_set()
        rules = find_replacement_rules(uow, configured_rules) or configured_rules
    return rules != build_configured_rules(index.config)
