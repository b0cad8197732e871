"""`proof` and `/v1/nodes/{node}/proof`: the score of a node in an accepted round is proven."""

import json
from pathlib import Path

import pytest
from eth_utils.address import to_checksum_address
from fastapi.testclient import TestClient

from oracle.chain.proofs.keccak import keccak
from oracle.cli.main import run
from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.config.loader import read_config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_folded_records
from oracle.daemon.web.api.read_api import create_read_api
from oracle.domain.roots.leaves import hash_leaf
from oracle.domain.roots.merkle_tree import compute_root
from oracle.indexer.event_archive import EventArchive
from oracle.queries.api.node_order import NodeRankingCache
from oracle.queries.api.source import ApiSource
from tests.support.cli.local_network import run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]

ABSENT = "0x" + "77" * 20
# The slot of `_roots` in the contract (tests/contracts/roots/layout.json).
ROOTS_SLOT = 4


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture(scope="module")
def published(network, tmp_path_factory):
    """Return the configuration of a database in which round 1 was accepted."""
    folder = tmp_path_factory.mktemp("proven")
    path = write_config(network.settings(folder), folder / "config.toml")
    assert run(["run", "--once", "--publish", "--config", str(path)]) == 0
    network.mine(1)
    assert run(["run", "--once", "--config", str(path)]) == 0
    # Later events do not change the round's proofs.
    network.play(1)
    assert run(["run", "--once", "--config", str(path)]) == 0
    return str(path)


@pytest.fixture
def chain(network):
    """Return the chain, and undo the test's changes."""
    chain = network.stage.chain
    snapshot = chain.make_request("evm_snapshot")
    yield chain
    assert chain.make_request("evm_revert", snapshot)


def read_json_output(capsys, *arguments: str):
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def verify(proof) -> None:
    leaf_hash = hash_leaf(bytes.fromhex(proof["leaf"]["encoded"][2:]), keccak)
    siblings = [bytes.fromhex(text[2:]) for text in proof["proof"]]
    assert "0x" + compute_root(leaf_hash, siblings, keccak).hex() == proof["root"]


def to_account_id(proof, address: str) -> str:
    return f"eip155:{proof['summary']['chain_id']}:{to_checksum_address(address)}"


def test_proof_of_every_node_verifies_against_the_accepted_root(published, capsys):
    reports = read_json_output(capsys, "report", "show", "--config", published)
    (landed,) = [report for report in reports if report["round"] == 1]
    nodes = [
        row["node"] for row in read_json_output(capsys, "nodes", "--config", published)["nodes"]
    ]
    proofs = [
        read_json_output(capsys, "proof", node, "--round", "1", "--config", published)
        for node in nodes
    ]

    assert len(nodes) > 1
    assert sorted(proof["leaf"]["seat"] for proof in proofs) == list(range(len(nodes)))
    for node, proof in zip(nodes, proofs, strict=True):
        verify(proof)
        assert (proof["root"], proof["leaf"]["node"]) == (landed["root"], node)
        assert not proof["is_absent"]
        assert proof["summary"]["round"] == 1
        assert proof["summary"]["as_of"] == landed["as_of"]
        assert proof["account_id"] == to_account_id(proof, node)
        assert proof["summary"]["oracle_account_id"] == to_account_id(
            proof, proof["summary"]["oracle"]
        )


def test_absence_of_an_unknown_address_is_proven(published, capsys):
    proof = read_json_output(capsys, "proof", ABSENT, "--config", published)

    verify(proof)
    assert proof["is_absent"]
    assert proof["leaf"]["node"] != ABSENT
    assert run(["proof", ABSENT, "--config", published]) == 0
    text = capsys.readouterr().out
    assert "none: no address between these two has a leaf" in text
    assert f"leaf before        {proof['leaf']['node']}\n" in text
    assert "checked: leaf and proof lead to the root;" in text


def test_proof_shows_the_values_of_the_node(published, capsys):
    (row, *_) = read_json_output(capsys, "nodes", "--config", published)["nodes"]
    proof = read_json_output(capsys, "proof", row["node"], "--config", published)
    assert run(["proof", row["node"], "--config", published]) == 0
    text = capsys.readouterr().out
    for words in (
        f"node               {row['node']}",
        f"score              QoS {proof['leaf']['qos'][:6]}",
        f"seat               {proof['leaf']['seat']}",
        f"round              1, as of block {proof['summary']['as_of']}",
        f"root               {proof['root']}",
        f"proof              {proof['proof'][0]}",
    ):
        assert f"{words}\n" in text


def prove_on_chain(capsys, config: str) -> tuple[int, str]:
    """Return the exit code of a proof that is compared with the contract, and the last line."""
    capsys.readouterr()
    code = run(["proof", ABSENT, "--onchain", "--config", config])
    return code, capsys.readouterr().out.splitlines()[-1]


def test_onchain_proof_shows_block_at_which_the_root_was_read(published, chain, capsys):
    proof = read_json_output(capsys, "proof", ABSENT, "--onchain", "--config", published)
    head = chain.make_request("eth_getBlockByNumber", "latest", False)
    code, line = prove_on_chain(capsys, published)

    verify(proof)
    assert proof["contract_root"] == {
        "block": int(head["number"], 16),
        "block_hash": head["hash"],
        "root": proof["root"],
    }
    assert code == 0
    assert line == (
        "checked on chain: leaf and proof lead to the root that the contract "
        f"{proof['summary']['oracle']} at block {int(head['number'], 16)} {head['hash']} has for "
        "round 1"
    )


def test_onchain_proof_of_a_struck_round_fails(network, published, chain, capsys):
    stage = network.stage
    pauser = chain.make_request("eth_accounts")[0]
    calls = [
        stage.build_transaction(pauser, "roots/QoSRoots", "pauseFor", 600),
        stage.build_transaction(pauser, "roots/QoSRoots", "strike", 1),
    ]
    chain.mine_and_check_receipts(network.clock.advance(), calls)
    code, line = prove_on_chain(capsys, published)

    assert code == 1
    assert line.startswith(f"NOT checked on chain: the contract {stage.oracle} at block ")
    assert line.endswith(" has no root of round 1")


def test_onchain_proof_fails_if_contract_has_other_root(network, published, chain, capsys):
    other_root = "0x" + 32 * "ab"
    slot = keccak((1).to_bytes(32) + ROOTS_SLOT.to_bytes(32))
    chain.make_request("anvil_setStorageAt", network.stage.oracle, "0x" + slot.hex(), other_root)
    code, line = prove_on_chain(capsys, published)

    assert code == 1
    assert line.startswith(f"DIFFERENT: the contract {network.stage.oracle} at block ")
    assert line.endswith(f" has the root {other_root} for round 1")


def test_unaccepted_round_fails_with_one_line_error(published, capsys):
    assert run(["proof", ABSENT, "--round", "99", "--config", published]) == 2
    assert "round 99 was not accepted in the indexed blocks" in capsys.readouterr().err


def test_api_returns_same_proof_as_command(published, capsys):
    nodes = [
        row["node"] for row in read_json_output(capsys, "nodes", "--config", published)["nodes"]
    ]
    with open_folded_records(read_config(Path(published))) as opened:
        archive = EventArchive(opened.store, open_reader(opened.config), opened.rules)
        rankings = NodeRankingCache(opened.rules)
        source = ApiSource(
            archive, rankings, lambda: None, lambda: 0, lambda _held: None, rules_id="{}"
        )
        client = TestClient(create_read_api(source, streams=ApiSection(max_streams=0)))
        answers = [client.get(f"/v1/nodes/{node}/proof?round=1").json() for node in nodes]
        missing = client.get(f"/v1/nodes/{nodes[0]}/proof?round=99")
        absent = client.get(f"/v1/nodes/{ABSENT}/proof").json()

    expected = [read_json_output(capsys, "proof", node, "--config", published) for node in nodes]
    assert [answer["proof"] for answer in answers] == expected
    assert missing.status_code == 404
    assert absent["proof"]["is_absent"]


def test_bundle_replaces_an_existing_file_atomically(published, tmp_path):
    path = tmp_path / "bundle.json"
    path.write_text("older", "utf-8")
    assert run(["proof", ABSENT, "--bundle", str(path), "--config", published]) == 0
    bundle = json.loads(path.read_text("utf-8"))
    assert (bundle["node"], bundle["proof"]["is_absent"]) == (ABSENT, True)
    assert [file.name for file in tmp_path.iterdir()] == ["bundle.json"]


def test_failed_bundle_write_leaves_no_partial_file(published, tmp_path, capsys):
    # A folder has the name of the file, so that only the last step fails.
    path = tmp_path / "bundle.json"
    path.mkdir()
    assert run(["proof", ABSENT, "--bundle", str(path), "--config", published]) == 2
    assert f"{path}: cannot write the bundle" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["bundle.json"]


def test_bundle_is_not_written_if_contract_has_other_root(network, published, chain, tmp_path):
    other_root = "0x" + 32 * "ab"
    slot = keccak((1).to_bytes(32) + ROOTS_SLOT.to_bytes(32))
    chain.make_request("anvil_setStorageAt", network.stage.oracle, "0x" + slot.hex(), other_root)
    path = tmp_path / "bundle.json"
    command = ["proof", ABSENT, "--onchain", "--bundle", str(path), "--config", published]
    assert run(command) == 1
    assert not path.exists()
