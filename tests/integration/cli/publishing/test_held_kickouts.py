"""A kickout that depends on the scores of one creator waits for the vetoer; with commands."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from oracle.chain.profiles.profile_loader import load_profile
from oracle.cli.main import run
from oracle.domain.fixed_point import UNIT
from oracle.domain.reports.report import hash_rules_and_settings
from tests.integration.cli.publishing.stopped_harness import (
    chain,
    config,
    endpoint,
    fallen,
    fresh_chain,
    fresh_testbed,
    harness,
    send_vetoer_call,
    sqlite_harness,
    sqlite_url,
    testbed,
)
from tests.integration.evm.test_kickout_on_chain import kick, node_two
from tests.support import harness as harness_support
from tests.support.harness import RULES, SETTINGS

__all__ = [
    "chain",
    "config",
    "endpoint",
    "fallen",
    "fresh_chain",
    "fresh_testbed",
    "harness",
    "sqlite_harness",
    "sqlite_url",
    "testbed",
]

HELD_RULES = replace(RULES, kick_creator_share=UNIT // 2)


@pytest.fixture(scope="module", autouse=True)
def _rules_that_hold() -> Iterator[None]:
    """Let the contract, the daemon and the commands have rules that hold the kickout."""
    rules_hash = hash_rules_and_settings(HELD_RULES, load_profile("reference").identity, SETTINGS)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(harness_support, "RULES", HELD_RULES)
        monkeypatch.setattr(harness_support, "RULES_HASH", rules_hash)
        yield


def list_entry(config, capsys):
    """Return the only entry of `kickout list`, as JSON."""
    capsys.readouterr()
    assert run(["kickout", "list", "--config", config, "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["kickouts"]
    return entry


def test_held_kickout_is_listed_with_its_reason(harness, config, capsys):
    reason = "4 of its 4 scores come from one creator's tasks (there is no other creator)"
    entry = list_entry(config, capsys)
    assert (entry["node"], entry["held"]) == (node_two(harness), reason)
    assert "the vetoer has to allow it" in entry["obstacle"]

    assert run(["kickout", "list", "--config", config]) == 0
    due_line, held_line = capsys.readouterr().out.splitlines()
    assert due_line.startswith(f"{node_two(harness)}  due since block ")
    assert "it is held; the vetoer has to allow it (`qos-oracle kickout allow`)" in due_line
    assert held_line == f"  held for the vetoer: {reason}"


@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
def test_node_with_held_kickout_is_not_accused(harness, config, endpoint, capsys, option):
    assert run(["kickout", "accuse", node_two(harness), "--config", config, option]) == 2
    assert "the vetoer has to allow it" in capsys.readouterr().err
    assert "eth_sendRawTransaction" not in endpoint.seen


def test_node_with_held_kickout_is_accused_after_vetoer_allows_it(harness, config, capsys):
    send_vetoer_call(harness, capsys, ["kickout", "allow", node_two(harness), "--config", config])
    entry = list_entry(config, capsys)
    assert entry["held"] is not None
    assert entry["obstacle"] is None

    assert run(["kickout", "accuse", node_two(harness), "--config", config, "--yes"]) == 0
    harness.mine()
    assert kick(harness)["live"]
