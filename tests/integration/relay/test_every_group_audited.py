"""An audit of every group of three: an honest relay has no difference,
a wrong score always one.
"""

import json
from collections.abc import Callable, Sequence

import pytest

from devnet.relay.published_rows import PublishedRow
from devnet.relay.relay_figures import NodeState, NodeStateHistory
from devnet.relay.relay_history import RelayHistory, TimedRow
from devnet.relay.relay_nodes import RelayNode
from oracle.domain.ids import Address
from oracle.queries.relay_audit.relay_audit import NodeAudit, Verdict
from tests.integration.relay.watched_relay import START, WatchedRelay
from tests.support.feeds.relay_rules import (
    ALL_GROUPS,
    SCORE_BY_RANK,
    Stream,
    can_identify_timeout,
    close_group,
    make_node_address,
)

# Each reads a thousand nodes over HTTP, page by page.
pytestmark = pytest.mark.slow

# Groups are so many ids apart that their members cannot be confused.
APART = 1_000
Pools = list[list[int]]


def honest(scores: Sequence[int | None]) -> Pools:
    """Each node's scores after a first group in which all agreed, and the one that is tried."""
    return [
        [first] if score is None else [first, score]
        for first, score in zip(SCORE_BY_RANK, scores, strict=True)
    ]


def history_of(books: Callable[[Sequence[int | None]], Pools]) -> RelayHistory:
    """Let three separate nodes run an agreed group, and then each group that can be closed."""
    stream = Stream()
    pools = dict[str, list[int]]()
    agreed = close_group("AAA")
    for number, outcomes in enumerate(ALL_GROUPS):
        nodes = range(3 * number, 3 * number + 3)
        tasks = range(6 * number, 6 * number + 6)
        for node in nodes:
            stream.emit(
                "NodeJoin", make_node_address(node), "", node_address=make_node_address(node)
            )
        stream.play_group(nodes, tasks[:3], "AAA", agreed)
        stream.next_id += APART
        closed = close_group(outcomes)
        stream.play_group(nodes, tasks[3:], outcomes, closed)
        stream.next_id += APART
        pools |= dict(zip(map(make_node_address, nodes), books(closed.scores), strict=True))
    rows = tuple(
        TimedRow(START, PublishedRow(number, kind, node, task, json.loads(args)))
        for number, kind, node, task, args in stream.rows
    )
    marks = {node: NodeState(START, mean_of(pool), stake=1) for node, pool in pools.items()}
    return RelayHistory(
        rows,
        {Address(node): NodeStateHistory(pools[node], [mark]) for node, mark in marks.items()},
        {Address(node): RelayNode("any", 1.0) for node in marks},
    )


def mean_of(pool: list[int]) -> float:
    return sum(pool) / len(pool) / 10


def audit(books: Callable[[Sequence[int | None]], Pools]) -> dict[str, NodeAudit]:
    relay_audit = WatchedRelay(history_of(books), START + 10).audit(witness=False, polls=2)
    return {node_audit.node: node_audit for node_audit in relay_audit.nodes}


def test_audit_of_an_honest_relay_finds_no_difference():
    audit_by_node = audit(honest)

    accused = {
        node for node, node_audit in audit_by_node.items() if node_audit.verdict is Verdict.DIFFERS
    }
    assert accused == set()
    unproven = {
        node
        for node, node_audit in audit_by_node.items()
        if node_audit.verdict is Verdict.UNPROVEN
    }
    # Only a 0 whose node cannot be determined is left open.
    assert unproven == {
        make_node_address(3 * number + place)
        for number, outcomes in enumerate(ALL_GROUPS)
        for place, score in enumerate(close_group(outcomes).scores)
        if not can_identify_timeout(outcomes) and score == 0
    }


def test_wrong_score_of_any_group_member_is_reported():
    def lying(scores: Sequence[int | None]) -> Pools:
        """Give every scored member the next score, and drop every 0."""
        wrong = {10: 5, 5: 2, 2: 10}
        return honest([None if score in {None, 0} else wrong[score or 0] for score in scores])

    audit_by_node = audit(lying)

    for number, outcomes in enumerate(ALL_GROUPS):
        for place, score in enumerate(close_group(outcomes).scores):
            node_audit = audit_by_node[make_node_address(3 * number + place)]
            is_lied_about = score is not None and (score > 0 or can_identify_timeout(outcomes))
            expected = Verdict.DIFFERS if is_lied_about else Verdict.AGREES
            assert (node_audit.verdict, outcomes, place) == (expected, outcomes, place)
