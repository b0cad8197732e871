"""`kickout` and `outbox` show the daemon's work; `kickout` sends nothing without confirmation."""

import json

from oracle.cli.kickout_plans import format_veto_deadline
from oracle.cli.main import run
from oracle.domain.blocks import Position
from oracle.domain.ids import Address
from oracle.domain.reports.node_kicks import (
    NEVER_EXPIRES,
    NO_TARGET,
    Expulsion,
    KickState,
    NodeKick,
)
from oracle.queries.kickout_models import build_expulsion_entries


def test_kickout_list_is_empty_without_due_nodes(indexed_config, capsys):
    assert run(["kickout", "list", "--config", str(indexed_config)]) == 0
    assert "no kickout is due" in capsys.readouterr().out


def test_kickout_commands_reject_node_that_is_not_due(indexed_config, network, capsys):
    node = next(iter(network.stage.nodes.values()))
    for command in ("accuse", "execute", "clear", "evidence", "allow", "veto"):
        assert run(["kickout", command, node, "--config", str(indexed_config)]) == 2
        assert f"{node}: the kickout is not due" in capsys.readouterr().err


def test_error_distinguishes_unknown_prefix_from_unknown_address(indexed_config, capsys):
    for command in ("accuse", "execute", "clear", "evidence", "allow", "veto"):
        assert run(["kickout", command, "0x1234", "--config", str(indexed_config)]) == 2
        assert "no known node starts with this prefix" in capsys.readouterr().err
    stranger = "0x" + "ab" * 20
    for command in ("accuse", "execute", "clear", "evidence", "allow", "veto"):
        assert run(["kickout", command, stranger, "--config", str(indexed_config)]) == 2
        assert "no node with this address has ever joined" in capsys.readouterr().err


def test_expired_veto_period_is_shown_as_expired():
    node = Address("0x" + 40 * "b")
    assert (
        format_veto_deadline(node, 5_000, 4_999) == "the vetoer has until 1970-01-01 01:23:20 UTC"
    )
    over = format_veto_deadline(node, 5_000, 5_000)
    assert over.startswith("the vetoer had until 1970-01-01 01:23:20 UTC; ")
    assert f"`qos-oracle kickout execute {node}` shows what else" in over


def build_expelled(number: int, target: Address, state: KickState) -> NodeKick:
    """Return a node whose kickout was executed in block 20 + number, in round 7."""
    at = Position(20 + number, 0, 0)
    gone = Expulsion(at, 7, NEVER_EXPIRES, target, 7, at)
    node = Address(f"0x{number:040x}")
    return NodeKick(node, state, expulsion=gone)


def test_expelled_nodes_are_exported_for_the_network_operator():
    kicks = [
        build_expelled(2, NO_TARGET, KickState.EXPELLED),
        build_expelled(1, Address("0x" + 40 * "a"), KickState.REFUSED),
        build_expelled(3, Address("0x" + 40 * "a"), KickState.EXPELLED),
    ]
    entries = list(build_expulsion_entries(kicks, min_block=0))
    assert [(entry.node[-1], entry.round, entry.block, entry.network) for entry in entries] == [
        ("1", 7, 21, "refused"),
        ("2", 7, 22, "nobody"),
        ("3", 7, 23, "done"),
    ]
    assert list(build_expulsion_entries(kicks, min_block=22)) == entries[1:]


def test_export_without_expulsions_prints_only_header(indexed_config, capsys):
    assert run(["kickout", "export", "--config", str(indexed_config)]) == 0
    assert capsys.readouterr().out == "node,evidence,round,block,until,network\n"
    assert run(["kickout", "export", "--config", str(indexed_config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_empty_outbox_is_listed(indexed_config, capsys):
    assert run(["outbox", "list", "--config", str(indexed_config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_unknown_intent_fails_with_one_line_error(indexed_config, capsys):
    assert run(["outbox", "show", "7", "--config", str(indexed_config)]) == 2
    assert "the outbox has no call 7" in capsys.readouterr().err
