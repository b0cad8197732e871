"""The demo on contracts that know nothing of us: what it shows is true, and a bad node leaves."""

import json
from functools import partial

import pytest

from devnet.commands import demo_commands
from devnet.demo.show import DemoOptions
from oracle.cli.main import run

pytestmark = [pytest.mark.evm, pytest.mark.slow, pytest.mark.timeout(1500)]


def played(monkeypatch, capsys, profile: str, **how):
    """The exit code, and the summary that was printed."""
    monkeypatch.setattr(demo_commands, "DemoOptions", partial(DemoOptions, **how))
    code = run(["demo", "--json", "--network", profile])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    return code, json.loads(printed.out)


@pytest.mark.nightly
@pytest.mark.parametrize("profile", ["crynux-vss", "crynux-commit"])
def test_the_whole_show_holds(monkeypatch, capsys, profile: str):
    code, summary = played(monkeypatch, capsys, profile)

    assert summary["faults"] == []
    assert code == 0
    assert len(summary["nodes"]) == 12
    hopeless = next(node for node in summary["nodes"] if node["name"] == "hopeless")
    assert (hopeless["status"] == "kicked_out") is bool(summary["put_out_in"])


@pytest.mark.nightly
def test_before_the_end_every_node_is_as_its_chain_says(monkeypatch, capsys):
    code, summary = played(monkeypatch, capsys, "crynux-vss", block_seconds=0.02, waves=3)

    assert code == 1
    assert all(node["equal"] for node in summary["nodes"])
    assert summary["faults"][0] == "the network has not said NodeKickedOut of hopeless"


def test_a_system_that_the_network_does_not_play_is_wrong_input(capsys):
    assert run(["demo", "--system", "elsewhere"]) == 2
    assert "--system elsewhere: there is crynux, crynux-docs, legacy" in capsys.readouterr().err
    assert run(["demo", "--network", "crynux-vss", "--system", "legacy"]) == 2
    assert "not of those of crynux-vss" in capsys.readouterr().err


def test_a_network_without_stand_ins_is_wrong_input(capsys):
    assert run(["demo", "--network", "elsewhere"]) == 2
    assert "no stand-ins for elsewhere; there are: crynux-vss" in capsys.readouterr().err


@pytest.mark.nightly
def test_the_daemon_has_what_the_relays_rows_say_and_the_relay_is_audited(monkeypatch, capsys):
    code, summary = played(monkeypatch, capsys, "crynux-relay")

    assert summary["faults"] == []
    assert code == 0
    assert len(summary["nodes"]) == 9
    assert any(node["zeros"] for node in summary["nodes"])
    # A bound of one or two possible zeros, and no more.
    assert all(node["highest"] - node["lowest"] < 0.1 for node in summary["nodes"])
