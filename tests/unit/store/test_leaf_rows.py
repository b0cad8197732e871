"""The rows that a cut reads cover all nodes that may have changed since the last cut."""

from itertools import groupby

import pytest
from hypothesis import given, strategies as st

from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_review import KickoutReview
from oracle.domain.roots import leaves, merkle_tree, node_leaves, round_tree
from oracle.domain.roots.node_leaves import (
    ScoringContext,
    build_scoring_context,
    encode_leaves,
    iter_linked_leaves,
)
from oracle.domain.roots.round_tree import RoundTree
from oracle.domain.scoring.rules import Rules
from oracle.store.database import Store
from oracle.store.state import node_repository
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.random_histories import any_histories
from tests.support.round_leaves import build_round_tree

CONTRACT = Address("0x" + 40 * "c")


class RolledBackError(Exception):
    """Ends the transaction of an example, so that the next one finds an empty database."""


@pytest.fixture(params=["native", "python"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute roots with the native code, if it is installed, and without it."""
    monkeypatch.setattr(node_repository, "_LEAF_ROWS_PER_BATCH", 3)
    if request.param == "python":
        for module in (leaves, merkle_tree, node_leaves, round_tree):
            monkeypatch.setattr(module, "native", None)


def context_of(folded: Fold, time: int) -> ScoringContext:
    return build_scoring_context(
        folded.ledger.nodes,
        time,
        folded.rules,
        lambda node: KickoutReview(
            "held" if node.seat % 2 else None, has_dead_letter=node.seat == 2
        ),
    )


def root_of(tree: RoundTree) -> str:
    return tree.compute_round_root(1, CONTRACT, 3, 99)


def check_roots(store: Store, events: list[DomainEvent], rules: Rules) -> None:
    """Cut after each block; compare with a tree of all nodes in memory."""
    folded = Fold(rules)
    tree = RoundTree((), keccak)
    last_block = last_time = 0
    with store.transaction() as uow:
        for block, block_events in groupby(events, key=lambda event: event.at.block):
            folded.fold_events(block_events)
            uow.nodes.save(folded.drain_changes().nodes.values())
            time = folded.last.time if folded.last is not None else 0
            context = context_of(folded, time)
            nodes = folded.ledger.nodes
            expected_tree = build_round_tree(
                iter_linked_leaves((nodes[key] for key in sorted(nodes)), context, keccak)
            )

            changed_rows = uow.nodes.iterate_changed_leaf_rows(
                last_block, last_time, tree.node_count
            )
            tree.update(encode_leaves(rows, context, keccak) for rows in changed_rows)
            assert root_of(tree) == root_of(expected_tree)
            all_rows = uow.nodes.iterate_leaf_rows()
            all_leaves = (encode_leaves(rows, context, keccak) for rows in all_rows)
            assert root_of(RoundTree(all_leaves, keccak)) == root_of(expected_tree)
            last_block, last_time = block, time
        raise RolledBackError


@pytest.mark.usefixtures("code")
@examples(5)
@given(rules=st.sampled_from([CRYNUX, RELAY]), events=any_histories())
def test_changed_leaf_rows_give_root_of_all_nodes(
    store: Store, rules: Rules, events: list[DomainEvent]
):
    with pytest.raises(RolledBackError):
        check_roots(store, events, rules)
