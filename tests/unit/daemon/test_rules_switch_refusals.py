"""If an input of a rules switch is missing, the daemon keeps its rules and names the input."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.daemon.compose import Index, compute_rules_hash, open_index
from oracle.daemon.config.dispatch_section import DispatchSection
from oracle.daemon.config.loader import Config, read_config
from oracle.daemon.records import Records, build_configured_rules, open_records
from oracle.daemon.rules_switch import RulesSwitcher
from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import RulesSet
from oracle.domain.ids import Hash
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.report import ReportSettings, format_rules_id
from oracle.domain.scoring.rules import Rules
from oracle.indexer.rules_binding import bind_rules, clear_rules_switch, record_rules_switch
from oracle.queries.rules_texts import hash_rules_text
from oracle.resources import find_shipped_path
from oracle.store.database import Store
from oracle.systems.crynux.crynux_rule_sets import CRYNUX

NEXT = replace(CRYNUX, tau_seconds=900)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    example = read_config(find_shipped_path("config/example.toml"))
    section = example.rules.model_copy(update={"announced_folder": tmp_path})
    return example.model_copy(update={"rules": section, "dispatch": DispatchSection()})


@pytest.fixture
def index(config: Config, store: Store) -> Iterator[Index]:
    with open_index(Records(config, build_configured_rules(config), store)) as opened:
        set_rules(store, 1, compute_rules_hash(config, opened.reader))
        yield opened


def set_rules(store: Store, block: int, rules_hash: Hash) -> None:
    with store.transaction() as uow:
        rules_set = RulesSet(Position(block, 0, 0), block, rules_hash)
        uow.rounds.save_changes(ContractChanges(settings=[rules_set]))


def publish(index: Index, settings: ReportSettings, rules: Rules = NEXT) -> Hash:
    """Put rules into the folder of announced rules, and return their hash."""
    text = format_rules_id(rules, index.reader.identity, settings)
    rules_hash = hash_rules_text(text)
    folder = index.config.rules.announced_folder
    (folder / f"{rules_hash}.json").write_text(text, "utf-8")
    return rules_hash


def find_reason(index: Index, rules_hash: Hash) -> str | None:
    set_rules(index.store, 2, rules_hash)
    return RulesSwitcher(index, 0, lambda: None).switch_rules_if_due()


def test_no_switch_is_needed_if_rules_are_unchanged(index: Index):
    assert RulesSwitcher(index, 0, lambda: None).switch_rules_if_due() is None


def test_switch_to_rules_that_are_not_on_this_host_is_rejected(index: Index):
    reason = find_reason(index, Hash("0x" + "ab" * 32))
    assert reason is not None
    assert "not on this host" in reason


def test_rules_file_with_wrong_hash_is_rejected(index: Index):
    rules_hash = publish(index, index.report_settings)
    path = index.config.rules.announced_folder / f"{rules_hash}.json"
    path.write_text(path.read_text("utf-8").replace("900", "901"), "utf-8")
    reason = find_reason(index, rules_hash)
    assert reason is not None
    assert "not on this host" in reason


def test_switch_to_rules_with_different_report_settings_is_rejected(index: Index):
    other_settings = replace(index.report_settings, heartbeat_seconds=7)
    reason = find_reason(index, publish(index, other_settings))
    assert reason is not None
    assert "other settings" in reason


def test_switch_to_rules_without_preview_is_rejected(index: Index):
    reason = find_reason(index, publish(index, index.report_settings))
    assert reason is not None
    assert "no preview" in reason


def test_rules_switch_is_rejected_with_dispatch_enabled(config: Config, store: Store):
    seconds = {"sd": 10, "llm": 10, "sd_ft": 60}
    drawing = {"start_block": 1, "fixed_seconds": seconds, "unit_seconds": seconds}
    section = DispatchSection.model_validate({**drawing, "queue_alpha": "0.5"})
    config = config.model_copy(update={"dispatch": section})
    with open_index(Records(config, build_configured_rules(config), store)) as index:
        reason = find_reason(index, publish(index, index.report_settings))
    assert reason is not None
    assert "[dispatch] is set" in reason


def test_switched_rules_are_kept_until_configuration_changes(config: Config, tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'switched.sqlite'}"
    database = config.database.model_copy(update={"url": url})
    config = config.model_copy(update={"database": database})
    with Store.open(url, create=True) as store, store.transaction() as uow:
        bind_rules(uow, NEXT, block=5)
        record_rules_switch(uow, CRYNUX, NEXT)

    with open_records(config) as records:
        assert (records.rules, build_configured_rules(records.config)) == (NEXT, NEXT)

    other = config.rules.model_copy(update={"change": {"tau_seconds": "700"}})
    with open_records(config.model_copy(update={"rules": other})) as records:
        assert records.rules.tau_seconds == 700
    with Store.open(url) as store, store.transaction() as uow:
        clear_rules_switch(uow)
    with open_records(config) as records:
        assert records.rules == CRYNUX
