"""The work of a publishing daemon in `outbox`, without any secret."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet.anvil import CHAIN_ID
from oracle.cli.main import run
from oracle.domain.health import Severity
from oracle.domain.ids import Address
from oracle.signing.keystore import unlock_keystore
from oracle.store.database import Store
from oracle.store.outbox.records import Account, PauseKind, Stamp
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]


@pytest.fixture(scope="module")
def busy(tmp_path_factory) -> Iterator[LocalNetwork]:
    """Yield a separate network for this module, because its tests send transactions."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(6)
        yield started


@pytest.fixture(scope="module")
def published(busy: LocalNetwork, tmp_path_factory) -> Path:
    """Return a configuration whose daemon has pushed a round and seen it mined."""
    folder = tmp_path_factory.mktemp("published")
    config = write_config(busy.settings(folder), folder / "config.toml")
    # Reports are cut at the head only: the first run catches up, then a period passes.
    assert run(["run", "--once", "--config", str(config)]) == 0
    busy.mine(8)
    for _ in range(2):
        assert run(["run", "--once", "--publish", "--config", str(config)]) == 0
        busy.mine(1)
    assert run(["run", "--once", "--publish", "--config", str(config)]) == 0
    return config


def test_outbox_list_shows_round_and_state_of_a_push(published, capsys):
    assert run(["outbox", "list", "--config", str(published), "--json"]) == 0
    pushes = json.loads(capsys.readouterr().out)
    assert (pushes[-1]["kind"], pushes[-1]["round"]) == ("push", 1)
    assert pushes[-1]["state"] in {"mined", "final"}

    assert run(["outbox", "list", "--config", str(published)]) == 0
    assert "round 1" in capsys.readouterr().out


def test_outbox_list_can_be_filtered_by_state(published, capsys):
    assert run(["outbox", "list", "--state", "held", "--config", str(published), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_outbox_list_can_be_filtered_by_kind(published, capsys):
    assert run(["outbox", "list", "--kind", "push", "--config", str(published), "--json"]) == 0
    assert {intent["kind"] for intent in json.loads(capsys.readouterr().out)} == {"push"}
    assert run(["outbox", "list", "--kind", "noop", "--config", str(published), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_journal_of_successful_push_shows_success(published, capsys):
    assert run(["outbox", "show", "1", "--config", str(published), "--json"]) == 0
    push = json.loads(capsys.readouterr().out)
    assert push["reason"] is None
    mined = next(entry for entry in push["journal"] if entry["event"] == "mined")
    assert re.fullmatch(r"block \d+, worked", mined["detail"])

    assert run(["outbox", "show", "1", "--config", str(published)]) == 0
    text = capsys.readouterr().out
    assert "sent once" in text
    assert "error_text" not in text


def test_outbox_show_prints_transactions_and_journal_of_a_push(published, capsys):
    assert run(["outbox", "show", "1", "--config", str(published), "--json"]) == 0
    push = json.loads(capsys.readouterr().out)
    events = [entry["event"] for entry in push["journal"]]
    assert events[:6] == ["planned", "ready", "assigned", "signed", "sent", "live"]
    assert [attempt["sends"] for attempt in push["attempts"]] == [1]
    assert not any("None" in entry["detail"] for entry in push["journal"])

    assert run(["outbox", "show", "1", "--config", str(published)]) == 0
    assert push["attempts"][0]["hash"] in capsys.readouterr().out


def test_explanation_of_a_round_contains_its_transaction(busy: LocalNetwork, published, capsys):
    assert run(["nodes", "--json", "--config", str(published)]) == 0
    nodes = [row["node"] for row in json.loads(capsys.readouterr().out)["nodes"]]
    commands = [["explain", node, "--round", "1", "--config", str(published)] for node in nodes]
    # A node that joined after the as-of block is not in the round.
    command, explanation = next(
        (candidate, candidate_explanation)
        for candidate in commands
        if (candidate_explanation := _run_json(candidate, capsys))["sent"] is not None
    )

    sent = explanation["sent"]
    assert (sent["round"], sent["lane"]) == (1, explanation["row"]["lane"])
    receipt = busy.stage.chain.make_request("eth_getTransactionReceipt", sent["transaction"])
    assert receipt["to"] == busy.stage.oracle
    assert int(receipt["blockNumber"], 16) == sent["block"]

    assert run([*command, "--full"]) == 0
    text = capsys.readouterr().out
    assert f"Round 1 is as of this block, with lane {sent['lane']}, accepted in block" in text
    assert sent["transaction"] in text


def _run_json(command, capsys):
    assert run([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_status_counts_calls_in_outbox(published, capsys):
    assert run(["status", "--config", str(published)]) == Severity.ATTENTION
    assert "push" in capsys.readouterr().out


def test_no_secret_is_printed_or_stored(busy: LocalNetwork, published, capsys):
    busy.mine(6)
    assert run(["run", "--once", "--publish", "--config", str(published)]) == 0
    assert run(["outbox", "show", "1", "--config", str(published), "--json"]) == 0
    assert run(["contract", "show", "--config", str(published)]) == 0
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert "did" in printed
    stored = b"".join(path.read_bytes() for path in published.parent.glob("oracle.sqlite*"))
    for role in ("signer", "transmitter"):
        files = busy.keys / f"{role}.json", busy.keys / f"{role}.password"
        key = unlock_keystore(*files)
        password = files[1].read_text().strip()
        assert key.hex() not in printed
        assert password not in printed
        assert key not in stored
        assert password.encode() not in stored


def test_paused_sender_is_shown_and_released(busy: LocalNetwork, tmp_path, capsys):
    config = write_config(busy.settings(tmp_path), tmp_path / "config.toml")
    account = Account(CHAIN_ID, Address("0x" + 40 * "1"))
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    with Store.open(url, create=True) as store, store.transaction() as uow:
        uow.outbox.accounts.enroll_account(account, 0, Stamp(0, 0))
        uow.outbox.accounts.pause(account, PauseKind.FOREIGN, "a foreign nonce", Stamp(0, 0))
    release = ["outbox", "release", account.address, "--config", str(config)]

    assert run(["outbox", "list", "--config", str(config)]) == 0
    assert "sends nothing: a foreign nonce" in capsys.readouterr().err
    assert run(["status", "--config", str(config)]) == Severity.ATTENTION
    stdout = capsys.readouterr().out
    assert f"{account.address} sends nothing: a foreign nonce (foreign); find out who" in stdout
    assert "outbox rebuild --from-chain" in stdout
    assert run([*release, "--dry-run"]) == 0
    assert run(release) == 0
    assert f"{account.address}: released (a foreign nonce)" in capsys.readouterr().out
    assert run(release) == 2
    assert "not paused" in capsys.readouterr().err


def test_lost_database_is_rebuilt_from_chain_before_sending(
    busy: LocalNetwork, published, tmp_path, capsys
):
    config = write_config(busy.settings(tmp_path), tmp_path / "config.toml")
    send = ["run", "--once", "--publish", "--config", str(config)]
    rebuild = ["outbox", "rebuild", "--from-chain", "--config", str(config)]
    assert run(send) == 2
    assert "this database has none of them" in capsys.readouterr().err

    assert run([*rebuild, "--dry-run", "--json"]) == 0
    (rebuilt_account,) = json.loads(capsys.readouterr().out)
    assert rebuilt_account["known_next_nonce"] is None
    assert (
        rebuilt_account["next_nonce"]
        == rebuilt_account["pending"]
        == len(rebuilt_account["rebuilt"])
        > 0
    )
    assert rebuilt_account["round"] >= 1
    assert run([*rebuild, "--dry-run"]) == 0
    would = capsys.readouterr().err
    assert "the outbox has no nonces, the chain has" in would
    assert "the signer would sign nothing until" in would
    assert run(send) == 2
    capsys.readouterr()

    assert run([*rebuild, "--yes"]) == 0
    captured = capsys.readouterr()
    assert rebuilt_account["rebuilt"][0]["hash"] in captured.out
    assert f"the next nonce is {rebuilt_account['next_nonce']}" in captured.err
    assert "the signer signs nothing until" in captured.err
    assert run(send) == 0
    assert run([*rebuild, "--yes"]) == 0
    assert "nothing to rebuild" in capsys.readouterr().err
