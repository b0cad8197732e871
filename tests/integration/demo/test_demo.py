"""The demo passes, and it fails when something is wrong."""

import json
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from devnet.commands import demo_commands
from devnet.demo.demo_system import DEMO_SYSTEMS
from devnet.demo.show import DemoOptions
from devnet.demo.stage import STAKE
from oracle.cli.main import run
from tests.integration.demo.lossy_endpoint import hide_first_group_validated

# A demo takes ten seconds or more; together they take most of the slow suite.
pytestmark = [pytest.mark.evm, pytest.mark.slow, pytest.mark.timeout(1500)]

LIAR = (sys.executable, str(Path(__file__).with_name("liar.py")))
# A few waves show whether scores are right; only the complete demo reaches the kickout.
SHORT = 2


def run_demo(monkeypatch, capsys, system="crynux", **options):
    """Run the demo; return its exit code and the printed summary."""
    monkeypatch.setattr(demo_commands, "DemoOptions", partial(DemoOptions, **options))
    code = run(["demo", "--json", "--system", system])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    return code, json.loads(printed.out)


def wrong_scores(summary):
    return [fault for fault in summary["faults"] if "a replay of the logs gives" in fault]


def check_slash(summary):
    """The node that lied once lost its stake by the verdict of three other nodes."""
    contest = summary["contest"]
    assert contest["slashed"] == STAKE
    assert contest["settled_in"].startswith("0x")
    assert len({*contest["second_group"], "darwin"}) == 4
    (darwin,) = (node for node in summary["nodes"] if node["name"] == "darwin")
    assert not darwin["selectable"]


@pytest.mark.nightly
@pytest.mark.parametrize("system", DEMO_SYSTEMS)
def test_demo_completes_without_faults(monkeypatch, capsys, system):
    code, summary = run_demo(monkeypatch, capsys, system)

    assert summary["faults"] == []
    assert code == 0
    assert len(summary["nodes"]) == 12
    assert all(node["proven"] and node["equal"] for node in summary["nodes"])
    assert len(summary["hot_set"]["readable"]) == 12
    check_slash(summary)
    if DEMO_SYSTEMS[system].has_burst:
        # Three groups of three tasks of the application that failed.
        assert summary["burst"] == {"is_found": True, "is_over": True, "timeouts": 9, "marked": 9}
    hopeless = next(node for node in summary["nodes"] if node["name"] == "hopeless")
    assert not hopeless["selectable"]
    assert summary["kickout"]["rejoin"] == "KickedOut"
    assert summary["kickout"]["by_stranger"]
    verdicts = {objection["name"]: objection["verdict"] for objection in summary["objections"]}
    upheld = {"fermi": "supported"} if DEMO_SYSTEMS[system].has_single_creator_node else {}
    assert verdicts == {"hopeless": "refuted"} | upheld
    assert all(objection["transaction"] for objection in summary["objections"])


@pytest.mark.nightly
@pytest.mark.parametrize("system", DEMO_SYSTEMS)
def test_demo_without_executed_kickout_fails(monkeypatch, capsys, system):
    code, summary = run_demo(monkeypatch, capsys, system, block_seconds=0.02, waves=SHORT)

    assert code == 1
    assert wrong_scores(summary) == []
    assert "no kickout was executed by executeKick" in summary["faults"]


# CI plays the whole demo from a clean clone (.ci/stranger.sh).
@pytest.mark.nightly
def test_demo_shortened_by_waves_option_completes(capsys):
    code = run(["demo", "--json", "--waves", str(SHORT)])
    summary = json.loads(capsys.readouterr().out)

    assert (code, summary["faults"], summary["kickout_played"]) == (0, [], False)
    assert len(summary["nodes"]) == 12
    assert all(node["proven"] and node["equal"] for node in summary["nodes"])
    check_slash(summary)


@pytest.mark.nightly
def test_waves_option_is_rejected_for_other_networks(capsys):
    assert run(["demo", "--network", "crynux-vss", "--waves", "3"]) == 2
    assert "--waves: only applies to the demo with this project's" in capsys.readouterr().err


@pytest.mark.nightly
def test_inflated_scores_of_the_daemon_are_detected(monkeypatch, capsys):
    code, summary = run_demo(monkeypatch, capsys, block_seconds=0.02, waves=SHORT, program=LIAR)

    assert code == 1
    assert len(wrong_scores(summary)) >= 6
    # The liar's root is on chain, so only the replay detects it.
    assert all(node["proven"] for node in summary["nodes"])


@pytest.mark.nightly
def test_scores_are_correct_even_if_an_endpoint_omits_a_log(monkeypatch, capsys):
    """The receipts prove the omission; draws made in the meantime may differ,
    and are then named.
    """
    hidden: list[str] = []
    with ExitStack() as opened:
        code, summary = run_demo(
            monkeypatch,
            capsys,
            block_seconds=0.02,
            waves=SHORT,
            wrap_endpoint=lambda url: opened.enter_context(
                hide_first_group_validated(url, hidden)
            ),
        )

    assert code == 1
    assert len(hidden) == 1
    assert wrong_scores(summary) == []
