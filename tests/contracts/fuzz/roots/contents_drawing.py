"""Draws the contents of rounds: honest leaves that follow the previous round, and forged ones."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.contracts.fuzz.roots.contract_views import INDEXES, NODES
from tests.contracts.fuzz.roots.state import CHAIN_ID, Place, State
from tests.contracts.fuzz.roots.trees import (
    BEST_LANE,
    DO_NOT_SELECT,
    EXCLUDED,
    HELD,
    LANES,
    MEMBER,
    PAUSED,
    Q_MAX,
    UNIT,
    ZERO_QOS,
    Contents,
    Leaf,
    Summary,
    words_of,
)

# Honest rounds have three words at most.
MAX_LEAVES = 40


def draw_contents(chosen: Random, place: Place, later: State, as_of: int) -> Contents:
    """Draw the next round's contents, which follow the last honest ones; some are forged."""
    honest = [contents for contents in later.contents.values() if not contents.is_forged]
    leaves = list(honest[-1].leaves) if honest else []
    leaves = [_redraw(chosen, later, leaf) for leaf in leaves]
    count = len(leaves)
    joining = chosen.choice((0, 0, 0, 1, 4)) if leaves else chosen.choice((1, 2, 9, 20, 33))
    used = {leaf.node for leaf in leaves}
    free = [node for node in range(1, NODES) if node not in used]
    for node in chosen.sample(free, min(joining, MAX_LEAVES - count, len(free))):
        leaf = Leaf(node, node, 1, MEMBER, len(leaves), 0, 0, UNIT, 0, 0, b"")
        leaves.append(_redraw_scores(chosen, later, leaf))
    contents = _seal(place, later, as_of, _link(leaves))
    if chosen.random() < 0.12:
        return replace(_forge(chosen, contents), is_forged=True)
    return contents


def _link(leaves: Sequence[Leaf]) -> list[Leaf]:
    """Let each leaf name the next higher address that has one."""
    nodes = sorted(leaf.node for leaf in leaves)
    next_nodes = dict(zip(nodes, nodes[1:] + nodes[:1], strict=True))
    return [leaf._replace(next_node=next_nodes[leaf.node]) for leaf in leaves]


def _seal(place: Place, later: State, as_of: int, leaves: Sequence[Leaf]) -> Contents:
    lanes = [leaf.lane for leaf in leaves]
    summary = Summary(
        chain_id=CHAIN_ID,
        oracle=place.oracle,
        round=later.round + 1,
        as_of=as_of,
        node_count=len(leaves),
        open_count=sum(lane >= ZERO_QOS for lane in lanes),
        total_weight=sum(lane - DO_NOT_SELECT for lane in lanes),
    )
    return Contents(tuple(leaves), words_of(leaves), summary)


def _redraw(chosen: Random, later: State, leaf: Leaf) -> Leaf:
    # A due kickout mostly stays due for some rounds, so that it can be executed.
    if chosen.random() < (0.04 if leaf.due_since else 0.25):
        leaf = _redraw_scores(chosen, later, leaf)
    return _redraw_due(chosen, later, leaf._replace(lane=leaf.expected_lane))


def _redraw_scores(chosen: Random, later: State, leaf: Leaf) -> Leaf:
    best = chosen.choice((0, 2, 5, Q_MAX, Q_MAX))
    pool = bytes(chosen.randint(best // 2, best) for _ in range(chosen.choice((0, 1, 3, 9))))
    flags = chosen.choice((*12 * (MEMBER,), MEMBER | PAUSED, MEMBER | EXCLUDED, 0, MEMBER | HELD))
    leaf = leaf._replace(
        flags=flags,
        score_count=len(pool),
        score_sum=sum(pool),
        reliability=chosen.choice((0, UNIT // 3, UNIT, UNIT, chosen.randint(0, UNIT))),
        scored_at=later.time if pool else 0,
        pool=pool,
    )
    lane = leaf._replace(lane=5_002).expected_lane
    return leaf._replace(lane=lane)


def _redraw_due(chosen: Random, later: State, leaf: Leaf) -> Leaf:
    """Mostly keep a due kickout; otherwise make the kickout of a low node due."""
    if leaf.due_since and chosen.random() < 0.95:
        return leaf
    if leaf.lane > 6_000 or chosen.random() < 0.5:
        return leaf._replace(due_since=0)
    ago = chosen.choice((0, 1, 1, 60, 600, 5_000))
    ahead = chosen.choice((1, 30, 600)) if chosen.random() < 0.05 else 0
    return leaf._replace(due_since=later.time - ago + ahead)


# --- forged by a stolen quorum ---


def _forge(chosen: Random, contents: Contents) -> Contents:
    return chosen.choice((*4 * (_forge_leaf,), _forge_word, _forge_word, _forge_summary))(
        chosen, contents
    )


def _forge_leaf(chosen: Random, contents: Contents) -> Contents:
    """Change the lane or sums, or make a leaf that contradicts another one."""
    leaves = list(contents.leaves)
    at = chosen.randrange(len(leaves))
    leaf = leaves[at]
    other = chosen.choice(leaves)
    variants = (
        leaf._replace(lane=chosen.choice((0, 1, 2, BEST_LANE, BEST_LANE + 1, 0xFFFF))),
        leaf._replace(score_sum=leaf.score_sum + 1),
        leaf._replace(score_count=leaf.score_count + 1),
        leaf._replace(node=other.node),
        leaf._replace(seat=other.seat),
        leaf._replace(seat=chosen.choice((0, 15, 16, 47, 2**32 - 1))),
        leaf._replace(next_node=chosen.randrange(1, NODES)),
        leaf._replace(reliability=2**64 - 1),
    )
    leaves[at] = chosen.choice(variants)
    return Contents(tuple(leaves), contents.words, contents.summary)


def _forge_word(chosen: Random, contents: Contents) -> Contents:
    """Use lanes that no leaf has, or a word of another index."""
    words = list(contents.words)
    at = chosen.randrange(len(words))
    index, word = words[at]
    lane = chosen.choice((1, 2, BEST_LANE, BEST_LANE + 1, 0x7FFF, 0x8000, 0xFFFF))
    shift = LANES * chosen.randrange(LANES)
    closed = sum(DO_NOT_SELECT << LANES * place for place in range(LANES))
    variants = (
        (index, word & ~(0xFFFF << shift) | lane << shift),
        (index, word | 0xFFFF << shift),
        (index, closed),
        (index, BEST_LANE * closed),
        (chosen.choice(INDEXES), word),
    )
    words[at] = chosen.choice(variants)
    return Contents(contents.leaves, tuple(words), contents.summary)


def _forge_summary(chosen: Random, contents: Contents) -> Contents:
    summary = contents.summary
    variants = (
        summary._replace(open_count=chosen.choice((0, 1, 2**32 - 1))),
        summary._replace(round=summary.round + chosen.choice((-1, 1))),
        summary._replace(oracle=summary.oracle ^ 1),
    )
    return replace(contents, summary=chosen.choice(variants))
