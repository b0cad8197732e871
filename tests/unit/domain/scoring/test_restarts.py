"""Pools that a restart of the relay loses, compared with a model of the relay's two stores."""

from dataclasses import dataclass, replace
from fractions import Fraction

from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import compute_long_term_score, is_kickout_due
from oracle.systems.crynux.crynux_rule_sets import RELAY
from tests.support.examples import examples
from tests.support.histories import History, fold_node

SIZE, BEST, FLOOR = 50, 10, 3


@dataclass
class RelayNode:
    """A node in the relay: a mean in its database, and a pool in its memory.

    Written from service/qos.go of crynux-relay 24ffc26; uses nothing of this product.
    """

    persisted: Fraction = Fraction(0)
    memory: list[int] | None = None

    def score(self, score: int) -> None:
        pool = self.memory
        if pool is None:
            pool = [int(self.persisted)] * (SIZE - 1) if self.persisted > 0 else []
        self.memory = [*pool, score][-SIZE:]
        self.persisted = Fraction(sum(self.memory), len(self.memory))

    def restart(self) -> None:
        self.memory = None

    def rejoin(self) -> None:
        if self.persisted and self.persisted < FLOOR:
            self.persisted = Fraction(FLOOR)
            self.memory = None

    @property
    def long_term(self) -> Fraction:
        return self.persisted / BEST if self.persisted else Fraction(1, 2)

    @property
    def is_due(self) -> bool:
        return self.memory is not None and len(self.memory) >= SIZE and self.persisted < 2


STEPS = st.one_of(
    st.tuples(st.sampled_from([0, 2, 5, 10]), st.sampled_from([1, 2, 3, 48, 49, 50, 51])),
    st.sampled_from(["restart", "rejoin"]),
)


@given(st.lists(STEPS, min_size=1, max_size=10))
@examples(150)
def test_mean_matches_relay_across_restarts_and_rejoins(
    steps: list[tuple[int, int] | str],
):
    history = History().joins("A")
    relay = RelayNode()
    restarts = []
    for step in steps:
        history.after(10)
        if step == "restart":
            restarts.append(history.time)
            history.after(1)
            relay.restart()
        elif step == "rejoin":
            history.quits("A").after(10).joins("A")
            relay.rejoin()
        elif isinstance(step, tuple):
            score, times = step
            history.scores("A", *[score] * times)
            for _ in range(times):
                relay.score(score)
        rules = replace(RELAY, restarts=tuple(restarts))
        scored_node = fold_node(history, "A", rules)
        long_term = Fraction(compute_long_term_score(scored_node, rules, history.time), UNIT)
        assert abs(long_term - relay.long_term) <= Fraction(2, UNIT)
        assert is_kickout_due(scored_node, rules, history.time) == relay.is_due


def test_relay_restart_keeps_the_exact_mean_until_the_next_score():
    history = History().joins("A").scores("A", 10, 10, 10, 5, 2)
    scored_node = fold_node(history, "A", RELAY)
    exact = compute_long_term_score(scored_node, RELAY, history.time)
    rules = replace(RELAY, restarts=(history.time + 10,))
    assert (
        compute_long_term_score(scored_node, rules, history.time + 10) == exact == 37 * UNIT // 50
    )

    history.after(20).scores("A", 10)
    scored_node = fold_node(history, "A", rules)
    assert scored_node.pool == bytes([7] * 49 + [10])
