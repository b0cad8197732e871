"""The page's check of a proof: true for OpenZeppelin's rounds, false for every changed value."""

import copy
import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.chain.hex_names import format_account_id
from oracle.chain.proofs.keccak import keccak
from oracle.daemon.web.pages.page_frame import STATIC
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import DO_NOT_SELECT
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf, RoundSummary
from oracle.domain.roots.round_tree import ProvableRound
from oracle.queries.leaf_models import ProofLeaf, ProofSummary
from oracle.queries.node_proof import NodeProofDetail
from oracle.queries.proof_sentences import describe_leaf, describe_summary
from tests.support.examples import examples
from tests.unit.domain.roots.test_root_vectors import ROUNDS, read_leaf
from tests.unit.domain.roots.test_round_tree import ADDRESSES, ORACLE, draw_leaves

NODE = shutil.which("node") or ""
pytestmark = pytest.mark.skipif(not NODE, reason="node runs the script")
# The context is like that of a page: a window, no modules, nothing of Node.js.
RUNNER = """
const { readFileSync } = require("node:fs");
const vm = require("node:vm");
const page = { input: readFileSync(0, "utf8") };
page.window = page;
vm.createContext(page);
for (const path of process.argv.slice(1)) {
  vm.runInContext(readFileSync(path, "utf8"), page);
}
console.log(vm.runInContext(`
  const { texts, proofs, leaves, summaries } = JSON.parse(input);
  JSON.stringify({
    digests: texts.map((hex) => keccak256(parseHex(hex, hex.length / 2 - 1, "text"))),
    results: proofs.map(([proof, expected]) => checkProof(proof, expected)),
    words: leaves.map((encoded) => describeLeaf(decodeLeaf(encoded))),
    sums: summaries.map(describeSummary),
  });
`, page));
"""
OTHER_HASH = "0x" + 64 * "5"
SCRIPTS = [str(STATIC / name) for name in ("vendor/keccak.min.js", "hashes.js", "proof.js")]

Json = dict[str, Any]


def run_script(texts=(), proofs=(), leaves=(), summaries=()) -> Json:
    completed = subprocess.run(
        [NODE, "-e", RUNNER, *SCRIPTS],
        input=json.dumps(
            {"texts": texts, "proofs": proofs, "leaves": leaves, "summaries": summaries}
        ),
        capture_output=True,
        text=True,
        check=True,
    )
    script_answer: Json = json.loads(completed.stdout)
    return script_answer


def check_proofs(proofs) -> list[bool]:
    return [result["is_true"] for result in run_script(proofs=proofs)["results"]]


def vector_proofs() -> Iterator[tuple[Json, Json]]:
    """Yield each proof of OpenZeppelin's rounds as the API returns it,
    and the page's expected values.
    """
    for vector in ROUNDS:
        row = vector["summary"]
        numbers = {name: int(value) for name, value in row.items() if name != "oracle"}
        summary = RoundSummary(oracle=Address(row["oracle"]), **numbers)
        for node_proof in vector["node_proofs"]:
            leaf = read_leaf(vector["leaves"][node_proof["seat"]])
            proof = state_proof(leaf.node, leaf, vector["root"], node_proof["proof"], summary)
            yield proof, expect(proof)


def state_proof(
    address: Address, leaf: NodeLeaf, root: str, siblings: list[str], summary: RoundSummary
) -> Json:
    """Return a proof as the API states it."""
    return NodeProofDetail(
        address=address,
        account_id=format_account_id(summary.chain_id, address),
        is_absent=leaf.node != address,
        root=root,
        leaf=ProofLeaf.from_leaf(leaf),
        proof=siblings,
        summary=ProofSummary.from_summary(summary),
    ).model_dump(mode="json")


def prove(leaves: list[NodeLeaf], address: Address) -> Json:
    """Return the proof of an address as the API states it."""
    by_address = sorted(leaves, key=lambda leaf: leaf.node)
    provable_round = ProvableRound(by_address, 1, ORACLE, 5, 77, keccak)
    proof = provable_round.prove_node(address)
    siblings = ["0x" + sibling.hex() for sibling in proof.hashes]
    root = "0x" + provable_round.root.hex()
    return state_proof(address, proof.leaf, root, siblings, provable_round.summary)


def expect(proof: Json) -> Json:
    """Return what a page that trusts its server expects of a proof."""
    names = ("chain_id", "oracle", "round", "as_of")
    of_round = {name: proof["summary"][name] for name in names}
    return {"address": proof["address"], "root": proof["root"], "other_root": None, **of_round}


def change(value: Any, position: int) -> Any:
    """Return a value that differs in one digit, one step or one state."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if value is None:
        return "0.000000000000000001"
    digit = "1" if value[position] == "0" else "0"
    return value[:position] + digit + value[position + 1 :]


def iter_changed(part: Any) -> Iterator[Any]:
    """Yield copies of a JSON value, each with one digit, number, state or item changed."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield {other: item for other, item in part.items() if other != name}
            yield from ({**part, name: changed} for changed in iter_changed(value))
    elif isinstance(part, list):
        yield [*part, part[-1]]
        for index, value in enumerate(part):
            yield part[:index] + part[index + 1 :]
            yield from (
                [*part[:index], changed, *part[index + 1 :]] for changed in iter_changed(value)
            )
    else:
        for position in range(len(part) if isinstance(part, str) else 1):
            yield change(part, position)


def test_vendored_keccak_matches_python_keccak():
    texts = [bytes(range(256))[:length] * 2 for length in range(200)]
    digests = run_script(texts=["0x" + text.hex() for text in texts])["digests"]
    assert digests == [keccak(text).hex() for text in texts]


def test_proof_script_accepts_proofs_built_by_openzeppelin():
    proofs = list(vector_proofs())
    results = run_script(proofs=proofs)["results"]
    assert [result["is_true"] for result in results] == [True] * len(proofs)
    assert [result["root"] for result in results] == [proof["root"] for proof, _ in proofs]


def test_proof_script_rejects_a_proof_with_one_changed_byte():
    proof, expected = next(pair for pair in vector_proofs() if len(pair[0]["proof"]) > 3)
    changed_proofs = list(iter_changed(proof))
    verdicts = check_proofs([(changed, expected) for changed in changed_proofs])
    pairs = zip(changed_proofs, verdicts, strict=True)
    accepted = [changed for changed, is_true in pairs if is_true]
    assert len(changed_proofs) > 900
    assert accepted == []


@pytest.mark.parametrize("name", ["address", "chain_id", "oracle", "round", "as_of", "root"])
def test_proof_script_rejects_a_proof_of_another_leaf(name: str):
    proof, expected = next(vector_proofs())
    others = [{**expected, name: changed} for changed in iter_changed(expected[name])]
    assert check_proofs([(proof, other) for other in others]) == [False] * len(others)


def test_proof_script_compares_the_root_that_the_reader_enters():
    proof, expected = next(vector_proofs())
    roots = [proof["root"], OTHER_HASH, "0x", "", "root"]
    pairs = [(proof, {**expected, "other_root": root}) for root in roots]
    assert check_proofs(pairs) == [True, False, False, False, False]


@pytest.mark.parametrize("name", ["node_count", "open_count", "total_weight"])
def test_proof_script_compares_the_displayed_summary(name: str):
    proof, expected = next(vector_proofs())
    true_summary = {**expected, name: proof["summary"][name]}
    others = [{**true_summary, name: changed} for changed in iter_changed(true_summary[name])]
    verdicts = check_proofs([(proof, true_summary), *((proof, other) for other in others)])
    assert verdicts == [True] + [False] * len(others)


def test_proof_is_checked_without_a_stored_root():
    proof, expected = next(vector_proofs())
    (result,) = run_script(proofs=[(proof, {**expected, "root": None})])["results"]
    assert result["is_true"]
    assert "Root" not in [check["name"] for check in result["checks"]]


@pytest.mark.slow
@examples(15)
@given(draw_leaves(), ADDRESSES)
def test_proof_script_accepts_proofs_of_presence_and_absence(
    leaves: list[NodeLeaf], stranger: Address
):
    addresses = [*(leaf.node for leaf in leaves), stranger]
    proofs = [prove(leaves, address) for address in addresses]
    verdicts = check_proofs([(proof, expect(proof)) for proof in proofs])
    assert verdicts == [True] * len(addresses)


@pytest.mark.slow
@examples(15)
@given(draw_leaves(), ADDRESSES, st.data())
def test_proof_script_rejects_an_unrelated_leaf(leaves, stranger, data):
    """A valid leaf of another node proves neither a score nor an absence."""
    leaf = data.draw(st.sampled_from(leaves))
    proof = prove(leaves, leaf.node)
    addresses = {stranger, *(other.node for other in leaves)} - {leaf.node}
    claims = [
        {**copy.deepcopy(proof), "address": address, "is_absent": is_absent}
        for address in addresses
        for is_absent in (False, True)
        if not (is_absent and is_in_gap(leaf, address))
    ]
    claims.append({**copy.deepcopy(proof), "is_absent": True})
    assert check_proofs([(claim, expect(claim)) for claim in claims]) == [False] * len(claims)


def is_in_gap(leaf: NodeLeaf, address: Address) -> bool:
    """Return whether a leaf proves that an address has none,
    in the circular order of addresses.
    """
    size = 1 << 160
    distance = (int(address, 16) - int(leaf.node, 16)) % size
    return 0 < distance < ((int(leaf.next_node, 16) - int(leaf.node, 16)) % size or size)


@pytest.mark.slow
@examples(15)
@given(draw_leaves())
def test_script_and_server_describe_leaves_identically(leaves: list[NodeLeaf]):
    words = run_script(leaves=["0x" + leaf.encode().hex() for leaf in leaves])["words"]
    expected = [describe_leaf(ProofLeaf.from_leaf(leaf)) for leaf in leaves]
    assert words == [[list(row) for row in rows] for rows in expected]


def test_script_and_server_describe_summaries_identically():
    summaries = [
        ProofSummary.from_summary(
            RoundSummary(1, ORACLE, 5, 77, count, count // 2, 10_001 * count)
        )
        for count in (0, 1, 12, 1_234)
    ]
    stated = [summary.model_dump(mode="json") for summary in summaries]
    sums = run_script(summaries=stated)["sums"]
    expected = [describe_summary(summary) for summary in summaries]
    assert sums == [[list(row) for row in rows] for rows in expected]


def test_leaf_description_contains_due_kickout_and_node_state():
    leaf = NodeLeaf(
        node=ORACLE,
        next_node=ORACLE,
        lane=DO_NOT_SELECT,
        flags=LeafFlag.MEMBER | LeafFlag.EXCLUDED | LeafFlag.HELD,
        seat=7,
        score_count=50,
        score_sum=120,
        reliability=312_345_678_901_234_567,
        kickout_due_since=1_800_003_580,
        last_scored_at=0,
        pool_hash=bytes(32),
    )
    rows = dict(describe_leaf(ProofLeaf.from_leaf(leaf)))
    assert rows == {
        "score": "do not select",
        "H": "0.3123",
        "scores that count": "50, with a sum of 120",
        "last score": "none",
        "kickout due": "since 15 Jan 2027, 08:59:40 UTC, held until an operator decides",
        "state": "member, excluded",
        "seat": "7",
    }
