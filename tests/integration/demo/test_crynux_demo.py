"""The demo on contracts without support for oracles: its figures are right,
and a bad node leaves.
"""

import json
from functools import partial

import pytest

from devnet.commands import demo_commands
from devnet.demo.show import DemoOptions
from oracle.cli.main import run

pytestmark = [pytest.mark.evm, pytest.mark.slow, pytest.mark.timeout(1500)]


def run_demo(monkeypatch, capsys, profile: str, **options):
    """Run the demo; return its exit code and the printed summary."""
    monkeypatch.setattr(demo_commands, "DemoOptions", partial(DemoOptions, **options))
    code = run(["demo", "--json", "--network", profile])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    return code, json.loads(printed.out)


@pytest.mark.nightly
@pytest.mark.parametrize("profile", ["crynux-vss", "crynux-commit"])
def test_demo_completes_without_faults(monkeypatch, capsys, profile: str):
    code, summary = run_demo(monkeypatch, capsys, profile)

    assert summary["faults"] == []
    assert code == 0
    assert len(summary["nodes"]) == 12
    # Only the network with an oracle contract has reports.
    is_proven = True if profile == "crynux-vss" else None
    assert {node["proven"] for node in summary["nodes"]} == {is_proven}
    hopeless = next(node for node in summary["nodes"] if node["name"] == "hopeless")
    assert (hopeless["status"] == "kicked_out") is bool(summary["put_out_in"])


@pytest.mark.nightly
def test_short_demo_reports_missing_kickout(monkeypatch, capsys):
    code, summary = run_demo(monkeypatch, capsys, "crynux-vss", block_seconds=0.02, waves=3)

    assert code == 1
    assert all(node["equal"] for node in summary["nodes"])
    assert summary["faults"][0] == "the network emitted no NodeKickedOut event for hopeless"


def test_unsupported_system_raises_input_error(capsys):
    assert run(["demo", "--system", "elsewhere"]) == 2
    assert "one of: crynux, crynux-docs, legacy" in capsys.readouterr().err
    assert run(["demo", "--network", "crynux-vss", "--system", "legacy"]) == 2
    assert "not to crynux-vss" in capsys.readouterr().err


def test_network_without_demo_contracts_raises_input_error(capsys):
    assert run(["demo", "--network", "elsewhere"]) == 2
    assert (
        "elsewhere: there are no stand-in contracts for this profile; expected one of: crynux-vss"
        in capsys.readouterr().err
    )


@pytest.mark.nightly
def test_relay_demo_completes_and_audits_the_relay(monkeypatch, capsys):
    code, summary = run_demo(monkeypatch, capsys, "crynux-relay")

    assert summary["faults"] == []
    assert code == 0
    assert len(summary["nodes"]) == 9
    assert any(node["zeros"] for node in summary["nodes"])
    # The bound allows for at most two possible zeros.
    assert all(node["highest"] - node["lowest"] < 0.1 for node in summary["nodes"])
