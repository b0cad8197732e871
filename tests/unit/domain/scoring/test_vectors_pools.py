"""Long-term scores, kickouts, rejoins and restarts of the source documents and of the relay."""

from dataclasses import replace
from fractions import Fraction

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import (
    append_score_to_pool,
    compute_long_term_score,
    compute_node_qos,
    is_excluded,
    is_kickout_due,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, create_node
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.histories import History, fold_node, make_node_address
from tests.support.vectors import Vector, vectors_of

PROFILES = {"seed_current": CRYNUX, "relay_head": RELAY}


def units(number: str) -> int:
    exact = Fraction(number) * UNIT
    assert exact.denominator == 1
    return exact.numerator


def close_to(number: str, value: int) -> bool:
    """Compare with a vector: vectors are rounded to nearest, the product rounds down at every
    step.

    See docs/reference/scoring-rules.md#numbers.
    """
    return abs(units(number) - value) <= 2


def member(pool: bytes = b"", reliability: int = UNIT) -> Node:
    new_node = create_node(make_node_address("A"), 0, 0, 0)
    new_node.membership = Membership.MEMBER
    new_node.pool = pool
    new_node.pool_sum = sum(pool)
    new_node.base = reliability
    return new_node


def pool_of_mean(mean: str, size: int | None = None) -> bytes:
    """Return a pool of scores from 0 to 10 with exactly this mean."""
    exact = Fraction(mean)
    size = size or exact.denominator
    total = exact * size
    assert total.denominator == 1
    low, more = divmod(total.numerator, size)
    return bytes([low + 1] * more + [low] * (size - more))


@vectors_of("long_term")
def test_long_term_score_is_mean_of_last_scores(vector):
    pool = b""
    for score in vector["scores_oldest_first"]:
        if score is not None:
            pool = append_score_to_pool(pool, score, CRYNUX)
    scored_node = member(pool)
    expected = vector["expected"]

    assert (len(pool), scored_node.pool_sum) == (expected["n"], expected["sum"])
    if expected["q_long_rational"]:
        assert Fraction(scored_node.pool_sum, len(pool)) == Fraction(*expected["q_long_rational"])
    assert close_to(expected["q_long_norm"], compute_long_term_score(scored_node, CRYNUX, 0))


@vectors_of("qos_product")
def test_qos_is_long_term_score_times_reliability(vector):
    pool = b"" if vector["q_long"] is None else pool_of_mean(vector["q_long"])
    scored_node = member(pool, units(vector["h"]))

    assert close_to(vector["qos"], compute_node_qos(scored_node, 0, CRYNUX) or 0)
    assert is_excluded(scored_node, 0, CRYNUX) is vector["seed_excluded"]


def kickout_input(inputs: Vector) -> Node:
    if "sum" in inputs:
        low, more = divmod(inputs["sum"], inputs["n"] or 1)
        return member(bytes([low + 1] * more + [low] * (inputs["n"] - more)))
    pool = b"" if inputs["pool"] == "none" else bytes([int(inputs["q_long"])] * 50)
    return member(pool, units(inputs.get("h", "1")))


@vectors_of("kickout")
def test_kickout_is_due_below_the_line_with_a_full_pool(vector):
    rules = PROFILES[vector["profile"]]
    scored_node = kickout_input(vector["input"])
    assert is_kickout_due(scored_node, rules) is vector["expected"]["kickout"]


RESTART = 1000


def after_restart(scores: tuple[int, ...], new: int) -> tuple[Node, Rules]:
    history = History().joins("A").scores("A", *scores)
    rules = replace(RELAY, restarts=(history.time + RESTART,))
    history.after(2 * RESTART).scores("A", new)
    return fold_node(history, "A", rules), rules


def back_again(*scores: int) -> History:
    return History().joins("A").scores("A", *scores).quits("A").after(10).joins("A")


@vectors_of("long_term_reseed_relay")
def test_pool_after_a_relay_restart_or_a_rejoin_matches_vectors(vector):
    _RESEEDS[vector["id"].split()[0]](vector["expected"])


def restart_copies_the_truncated_mean(expected: Vector) -> None:
    scores = (10, 10, 10, 10, 10, 10, 10, 5, 2, 2)
    restarted_node, rules = after_restart(scores, 10)
    assert sum(scores) == 79
    assert restarted_node.pool == bytes([7] * expected["seed_copies"] + [10])
    assert len(restarted_node.pool) == expected["n"]
    assert close_to(
        str(Fraction(expected["q_long"]) / 10),
        compute_long_term_score(restarted_node, rules, 10**6 - 1),
    )


def restart_copies_no_zero(expected: Vector) -> None:
    restarted_node, rules = after_restart((0, 0, 0), 2)
    assert len(restarted_node.pool) == expected["n"]
    assert close_to(
        str(Fraction(expected["q_long"]) / 10),
        compute_long_term_score(restarted_node, rules, RESTART),
    )


def low_rejoin_is_floored(expected: Vector) -> None:
    history = back_again(*[2, 0] * 25)
    rejoined_node = fold_node(history, "A", RELAY)
    assert len(rejoined_node.pool) == expected["pool_size_after_join"]
    assert (
        compute_long_term_score(rejoined_node, RELAY, 0)
        == units(expected["q_long_after_join"]) // 10
    )

    rejoined_node = fold_node(history.scores("A", 10), "A", RELAY)
    assert (
        compute_long_term_score(rejoined_node, RELAY, 0)
        == units(expected["q_long_after_next_score_10"]) // 10
    )
    assert is_kickout_due(rejoined_node, RELAY) is not expected["not_below_kickout_threshold"]


def healthy_rejoin_keeps_its_pool(expected: Vector) -> None:
    rejoined_node = fold_node(back_again(*[5] * 50), "A", RELAY)
    assert len(rejoined_node.pool) == expected["pool_size_after_join"]
    assert (
        compute_long_term_score(rejoined_node, RELAY, 0)
        == units(expected["q_long_after_join"]) // 10
    )


def zero_mean_escapes_the_floor(expected: Vector) -> None:
    history = History().joins("A").scores("A", *[0] * 50).is_kicked_out("A").after(10).joins("A")
    rejoined_node = fold_node(history, "A", RELAY)
    assert rejoined_node.pool == bytes(expected["pool_size_after_join"])
    assert is_kickout_due(rejoined_node, RELAY) is expected["kicked_again_at_next_finish"]
    # Under the rules of `crynux` it starts without its previous record.
    assert fold_node(history, "A", CRYNUX).pool == b""


_RESEEDS = {
    "reseed-01": restart_copies_the_truncated_mean,
    "reseed-02": restart_copies_no_zero,
    "reseed-03": low_rejoin_is_floored,
    "reseed-04": healthy_rejoin_keeps_its_pool,
    "reseed-05": zero_mean_escapes_the_floor,
}
