"""`kickout` and `outbox` read what the daemon did; `kickout` sends nothing unless told."""

import json

from oracle.entrypoints.cli import run


def test_nobody_is_due_at_first(indexed, capsys):
    assert run(["kickout", "list", "--config", str(indexed)]) == 0
    assert "no kickout is due" in capsys.readouterr().out


def test_a_node_that_is_not_due_cannot_be_proposed(indexed, network, capsys):
    node = next(iter(network.stage.nodes.values()))
    for command in ("propose", "execute", "evidence"):
        assert run(["kickout", command, node, "--config", str(indexed)]) == 2
        assert f"{node}: its kickout is not due" in capsys.readouterr().err


def test_what_names_no_node_is_told_apart_from_a_node_that_is_not_due(indexed, capsys):
    for command in ("propose", "execute", "evidence", "cancel"):
        assert run(["kickout", command, "0x1234", "--config", str(indexed)]) == 2
        assert "0x and 40 hex digits" in capsys.readouterr().err
    stranger = "0x" + "ab" * 20
    for command in ("propose", "execute", "evidence"):
        assert run(["kickout", command, stranger, "--config", str(indexed)]) == 2
        assert "no node of this address has ever joined" in capsys.readouterr().err


def test_an_empty_outbox_is_listed(indexed, capsys):
    assert run(["outbox", "list", "--config", str(indexed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_an_intent_that_is_not_there_is_one_clear_line(indexed, capsys):
    assert run(["outbox", "show", "7", "--config", str(indexed)]) == 2
    assert "the outbox has no 7" in capsys.readouterr().err
