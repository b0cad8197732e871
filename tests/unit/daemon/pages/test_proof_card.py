"""What the pages state about proofs: the round, its root, and the leaf at the newest block."""

import json
from dataclasses import replace

import pytest

from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.roots.node_leaves import build_scoring_context, iter_linked_leaves
from oracle.indexer.kickout_reviews import load_kickout_review
from oracle.queries.api.node_proof import build_leaf_at_cursor
from oracle.queries.api.source import open_snapshot
from oracle.queries.leaf_models import ProofLeaf
from oracle.queries.proof_sentences import describe_leaf
from oracle.queries.text.human_numbers import capitalize_first
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IDENTITY, IndexedHistory
from tests.support.histories import make_node_address
from tests.support.rounds import build_accepted_round, build_contract_state
from tests.unit.daemon.pages.test_every_page import Elements, a_network
from tests.unit.daemon.pages.test_other_networks import of_2024
from tests.unit.systems.legacy.networks import RULES

ABSENT = "0x" + 40 * "7"
ROOT = Hash("0x" + 64 * "a")
AS_OF = BlockRef(9, Hash("0x" + 64 * "b"), ZERO_HASH, 1_009)


def fold_rounds(count: int) -> ContractState:
    """Return the contract's state after this number of rounds; round 2 is as of `AS_OF`."""
    state = build_contract_state()
    for number in range(1, 1 + count):
        accepted_round = build_accepted_round(number)
        if number == 2:
            accepted_round = replace(
                accepted_round, as_of=AS_OF.number, as_of_hash=AS_OF.hash, root=ROOT
            )
        state.fold_block(number, [accepted_round], journal=False)
    return state


@pytest.fixture
def index(new_sqlite_store):
    """Return a function that indexes a network, with accepted rounds if they are given."""
    with new_sqlite_store() as store:

        def index_network(state: ContractState | None):
            indexed = IndexedHistory(store).whole(a_network())
            if state is not None:
                with store.transaction() as uow:
                    uow.rounds.save_changes(state.drain_changes())
            return indexed.client()

        yield index_network


def read_form(text: str) -> dict[str, str | None] | None:
    """Return the attributes of the form that checks a proof, or None if there is no such form."""
    forms = [attributes for tag, attributes in Elements(text).elements if tag == "form"]
    return next((form for form in forms if "data-proof" in form), None)


def test_proof_script_receives_the_newest_round_and_its_root(index):
    text = index(fold_rounds(2)).get(f"/nodes/{make_node_address('A')}").text
    assert read_form(text) == {
        "class": "proof",
        "hidden": None,
        "data-proof": f"/v1/nodes/{make_node_address('A')}/proof?round=2",
        "data-subject": "leaf",
        "data-address": make_node_address("A"),
        "data-root": ROOT,
        "data-summary": json.dumps(
            {"chain_id": IDENTITY.chain_id, "oracle": IDENTITY.oracle, "round": 2, "as_of": 9}
        ),
    }
    assert f'title="{AS_OF.hash}"' in text
    # The leaves of this round are not stored.
    assert "the server folds the round again" in text


def test_requested_round_is_shown_with_its_root(index):
    text = index(fold_rounds(2)).get(f"/nodes/{make_node_address('A')}?round=1").text
    form = read_form(text)
    assert form is not None
    assert form["data-root"] == build_accepted_round(1).root
    assert '"round": 1' in str(form["data-summary"])


def test_page_for_unknown_or_malformed_round_returns_an_error(index):
    client = index(fold_rounds(2))
    for address in (make_node_address("A"), ABSENT):
        for number, status in (("3", 404), ("x", 422), ("-1", 422)):
            assert client.get(f"/nodes/{address}?round={number}").status_code == status, number


def test_round_page_without_a_node_proves_only_the_summary(index):
    form = read_form(index(fold_rounds(3)).get("/rounds/3").text)
    assert form is not None
    assert (form["data-address"], form["data-subject"]) == ("0x" + 40 * "0", "summary")


def test_page_of_unknown_address_contains_absence_proof(index):
    client = index(fold_rounds(2))
    found = client.get("/search", params={"q": ABSENT}, follow_redirects=False)
    answer = client.get(found.headers["location"])
    assert answer.status_code == 404
    assert "<h1>This address is not a node.</h1>" in answer.text
    form = read_form(answer.text)
    assert form is not None
    assert form["data-proof"] == f"/v1/nodes/{ABSENT}/proof?round=2"


@pytest.mark.parametrize("address", [make_node_address("A"), ABSENT])
def test_no_proof_is_offered_before_first_round(index, address):
    text = index(None).get(f"/nodes/{address}").text
    assert read_form(text) is None


@pytest.mark.parametrize(
    ("history", "rules"), [(a_network(), CRYNUX), (of_2024(), RULES)], ids=["crynux", "legacy"]
)
def test_leaf_on_the_node_page_equals_the_leaf_of_the_next_round(new_sqlite_store, history, rules):
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store, rules).whole(history)
        text = indexed.client().get(f"/nodes/{make_node_address('A')}").text
        with open_snapshot(indexed.source) as snapshot:
            nodes = indexed.fold.ledger.nodes
            policy = KickoutPolicy(rules)
            context = build_scoring_context(
                nodes,
                snapshot.cursor.time,
                rules,
                lambda due_node: load_kickout_review(snapshot.uow, due_node, policy),
            )
            in_order = sorted(nodes.values(), key=lambda folded_node: folded_node.address)
            leaves = [
                ProofLeaf.from_leaf(leaf) for leaf in iter_linked_leaves(in_order, context, keccak)
            ]
            leaves_at_cursor = [
                build_leaf_at_cursor(snapshot, folded_node) for folded_node in in_order
            ]
    unlinked = {"next_node", "encoded"}
    assert [leaf.model_dump(exclude=unlinked) for leaf in leaves_at_cursor] == [
        leaf.model_dump(exclude=unlinked) for leaf in leaves
    ]
    (leaf,) = (leaf for leaf in leaves if leaf.node == make_node_address("A"))
    for name, words in describe_leaf(leaf):
        assert f"<dt>{capitalize_first(name)}</dt><dd>{words}</dd>" in text
