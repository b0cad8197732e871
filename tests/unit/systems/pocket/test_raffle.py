"""The raffle of the article with `select`: tickets are the weights of the draw.

See docs/reference/sources.md#pocket-node-selector.
"""

from collections import Counter
from hashlib import sha256

from hypothesis import given, strategies as st

from oracle.domain.ids import Address
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.pocket.pocket_policy import ARTICLE
from oracle.systems.policy import PolicyInput
from oracle.systems.weighted_draw import draw_nodes
from tests.support.histories import History, fold_history, make_node_address, make_task_key


def candidates() -> list[tuple[Address, int]]:
    """Return the candidates of a task with their tickets: fast, slow, and an unknown one."""
    history = History().joins("fast", "slow", "new", stake=1)
    for n in range(3):
        history.starts(f"f{n}", "fast").starts(f"s{n}", "slow").after(1).submits(f"f{n}")
        history.succeeds(f"f{n}").after(4).submits(f"s{n}").succeeds(f"s{n}")
    fold, _ = fold_history(history.creates("t"))
    follower = ARTICLE.create_evaluator()
    for event in history.events:
        follower.apply_event(event)
    policy_input = PolicyInput(fold.ledger.nodes, CRYNUX, history.time)
    verdicts = follower.evaluate_candidates(fold.ledger.tasks[make_task_key("t")], policy_input)
    return [(verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None]


def test_win_frequency_follows_tickets():
    tickets = dict(candidates())
    assert tickets == {
        make_node_address("fast"): 10,
        make_node_address("slow"): 1,
        make_node_address("new"): 10,
    }
    seeds = (sha256(n.to_bytes(4, "big")).digest() for n in range(2100))
    wins = Counter(draw_nodes([*tickets.items()], seed, 1)[0].node for seed in seeds)
    # Chi-square with two degrees of freedom: 13.8 is exceeded once in a thousand; the seeds
    # are fixed.
    expected = {who: 100 * many for who, many in tickets.items()}
    assert sum((wins[who] - many) ** 2 / many for who, many in expected.items()) < 13.8
    assert min(wins[who] for who in tickets) > 0


@given(st.binary(min_size=32, max_size=32), st.permutations(range(3)))
def test_same_seed_picks_same_node_for_any_candidate_order(seed, order):
    tickets = candidates()
    (drawn,) = draw_nodes([tickets[n] for n in order], seed, 1)
    assert [drawn] == draw_nodes(tickets, seed, 1)
    assert drawn.total == 21
