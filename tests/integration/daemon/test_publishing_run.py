"""`run --once --publish` on a real chain, from a node's tasks to its lane."""

import json

import pytest

from oracle.bindings.codec import encode_call
from oracle.chain.proofs.keccak import keccak
from oracle.cli.main import run
from oracle.domain.roots.leaves import hash_leaf
from oracle.domain.roots.merkle_tree import compute_root
from oracle.signing.local import KeySigner
from oracle.telemetry import quorum_metrics
from tests.support.cli.daemon import run_daemon
from tests.support.cli.local_network import run_local_network, write_config
from tests.support.sending.stolen_keys import sign_stolen_payment

pytestmark = pytest.mark.evm

# Nonces are compared at startup and then every second instead of every five minutes.
ATTENTIVE = (
    "-c",
    """
from oracle.cli import main
from oracle.daemon import jobs
jobs.RECONCILE_SECONDS = 1.0
main.main()
""",
)
GWEI = 10**9


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Yield a chain of this module, because its tests use the transmitter's nonces."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture(scope="module")
def published(network, tmp_path_factory):
    """Return a configuration whose first round has landed."""
    folder = tmp_path_factory.mktemp("published")
    path = write_config(network.settings(folder), folder / "config.toml")
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
    network.mine(1)
    assert run(["run", "--once", "--config", str(path)]) == 0
    return path


def run_json(capsys, *arguments):
    capsys.readouterr()
    # No daemon works, which `status` calls for attention.
    assert run([*map(str, arguments), "--json"]) == (arguments[0] == "status")
    return json.loads(capsys.readouterr().out)


def fetch_root(network, number):
    call = {"to": network.stage.oracle, "data": encode_call("roots/QoSRoots", "rootOf", number)}
    return network.stage.chain.make_request("eth_call", call, "latest")


def test_run_once_sends_and_confirms_the_due_report(published, capsys):
    status = run_json(capsys, "status", "--config", published)

    assert status["round"] == 1
    (push,) = status["outbox"]
    assert (push["kind"], push["count"]) == ("push", 1)
    assert push["state"] in {"live", "mined"}


@pytest.mark.slow
def test_explained_lane_is_proven_by_the_onchain_root(published, network, capsys):
    nodes = run_json(capsys, "nodes", "--config", published)["nodes"]
    assert len(nodes) == 12
    root = fetch_root(network, 1)
    for node in nodes:
        options = [node["node"], "--round", 1, "--config", published]
        proof = run_json(capsys, "proof", *options)
        leaf = bytes.fromhex(proof["leaf"]["encoded"][2:])
        siblings = [bytes.fromhex(text[2:]) for text in proof["proof"]]
        assert "0x" + compute_root(hash_leaf(leaf, keccak), siblings, keccak).hex() == root
        assert run_json(capsys, "explain", *options)["row"]["lane"] == proof["leaf"]["lane"]


@pytest.mark.slow
def test_equivocation_counter_is_initialised_to_zero_at_start(published):
    """A series that starts at 1 shows no increase, so an alert would miss it."""
    quorum_metrics.EQUIVOCATION.clear()
    assert run(["run", "--once", "--publish", "--config", str(published)]) == 0
    (family,) = quorum_metrics.EQUIVOCATION.collect()
    assert [sample.value for sample in family.samples] == [0]


def test_run_without_publish_sends_nothing(network, tmp_path, capsys):
    path = write_config(network.settings(tmp_path), tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 0
    assert run_json(capsys, "status", "--config", path)["outbox"] == []


@pytest.mark.nightly
@pytest.mark.slow
def test_key_used_elsewhere_pauses_the_sender_but_not_the_daemon(tmp_path, capsys):
    (tmp_path / "keys").mkdir()
    with run_local_network(tmp_path / "keys") as network:
        network.play(3)
        settings = network.settings(tmp_path)
        # Gas is too expensive, so no nonce is assigned.
        settings["limits"]["max_fee_per_gas_wei"] = 1
        path = write_config(settings, tmp_path / "config.toml")
        with run_daemon(path, "--publish", program=ATTENTIVE) as running:
            running.wait_until_ready()
            thief = send_with_stolen_key(network)
            log_line = running.wait_for("account_nonce_ahead", sender=thief, counted=1, assigned=0)
            assert "rebuild --from-chain" in log_line["act"]
            running.wait_for_text("/readyz", f"PAUSED-SENDER: {thief} sends nothing (foreign)")
            assert running.get("/readyz").status_code == 503
            running.wait_for_text(
                "/metrics", 'oracle_txmgr_paused{account="transmitter",kind="foreign"} 1.0'
            )
            # Everything else continues.
            network.mine(3)
            running.wait_for_block(network.head())
            assert running.get("/v1/operations").json()["folded"]["number"] == network.head()
            assert running.get("/livez").status_code == 200
            code, _ = running.stop()
        assert code == 0
        # A restart during the night ends neither the pause nor the daemon.
        with run_daemon(path, "--publish") as again:
            again.wait_for_text("/readyz", f"PAUSED-SENDER: {thief} sends nothing (foreign)")
            assert again.stop()[0] == 0

        # Nothing was sent, and nothing will be sent before an operator's review.
        assert (
            network.stage.chain.make_request("eth_getTransactionCount", thief, "latest") == "0x1"
        )
        settings["limits"]["max_fee_per_gas_wei"] = 100 * GWEI
        release_and_continue(write_config(settings, path), thief, capsys)


@pytest.mark.slow
def test_rebuilt_nonces_are_summarised_in_a_single_row(tmp_path, capsys):
    (tmp_path / "keys").mkdir()
    with run_local_network(tmp_path / "keys") as network:
        path = write_config(network.settings(tmp_path), tmp_path / "config.toml")
        assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
        for _ in range(21):
            send_with_stolen_key(network)
        last = network.head()
        rebuild = ["outbox", "rebuild", "--from-chain", "--dry-run", "--config", str(path)]
        (answer,) = run_json(capsys, *rebuild)
        assert [entry["nonce"] for entry in answer["rebuilt"]] == list(range(21))
        assert run(rebuild) == 0
        _, row = capsys.readouterr().out.splitlines()
        assert " ".join(row.split()) == f"0..20 21 nonces {last - 20}..{last} 21 succeeded"


def release_and_continue(path, thief, capsys):
    where = ["--config", str(path)]
    assert run(["run", "--once", "--publish", *where]) == 2
    assert run(["outbox", "release", thief, *where]) == 2
    assert "outbox rebuild --from-chain" in capsys.readouterr().err
    assert run(["outbox", "rebuild", "--from-chain", "--yes", *where]) == 0
    assert f"`qos-oracle outbox release {thief}` to resume it" in capsys.readouterr().err
    assert run(["outbox", "release", thief, *where]) == 0
    assert run(["run", "--once", "--publish", *where]) == 0
    nonces = [intent["nonce"] for intent in run_json(capsys, "outbox", "list", *where)]
    assert [nonce for nonce in nonces if nonce is not None] == [0]


def send_with_stolen_key(network):
    """Send from the transmitter's account; return its address."""
    chain = network.stage.chain
    key = json.loads((network.keys / "transmitter.json").read_text("utf-8"))
    sender = "0x" + key["address"].removeprefix("0x").lower()
    signer = KeySigner.open(
        network.keys / "transmitter.json", network.keys / "transmitter.password"
    )
    nonce = int(chain.make_request("eth_getTransactionCount", sender, "latest"), 16)
    raw = sign_stolen_payment(signer, nonce, signer.address, 100 * GWEI)
    chain.make_request("eth_sendRawTransaction", raw)
    network.mine(1)
    return sender
