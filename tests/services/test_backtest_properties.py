"""What holds of any history: spells are the seconds of exclusion, and both weighings agree."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.views import is_excluded
from oracle.services.backtest.columns import Column
from oracle.services.backtest.history import kept
from oracle.services.backtest.measuring import Asked, measure
from oracle.systems.crynux.policy import RELAY_POLICY, SEED_POLICY, CrynuxFollower, CrynuxPolicy
from oracle.systems.crynux.rule_sets import RELAY, SEED
from tests.histories import folded, rules_with
from tests.random_histories import any_histories, disturbed_histories, legal_histories

# So hard that one timeout excludes.
HARD = rules_with(penalty=UNIT // 20)
REMEMBERED = rules_with(penalty=UNIT // 20, exclude_exit=UNIT // 2)


@dataclass(frozen=True)
class OneByOne:
    """The same policy, but every node is judged for every task."""

    policy: CrynuxPolicy
    name: str = "one by one"
    version: int = 1

    def follow(self) -> CrynuxFollower:
        return self.policy.follow()


def measured(events, rules, policy, asked):
    with TemporaryDirectory() as folder:
        history = kept(events, Path(folder) / "events")
        return history, measure(Column("under test", rules, policy.name), policy, history, asked)


@given(legal_histories().filter(bool), st.sampled_from([HARD, REMEMBERED]), st.data())
@settings(max_examples=60)
def test_a_node_is_in_a_spell_in_just_the_seconds_in_which_it_is_excluded(events, rules, data):
    history, found = measured(events, rules, SEED_POLICY, Asked(judges=False))
    if history.from_time == history.to_time:
        return
    second = data.draw(st.integers(history.from_time, history.to_time - 1))
    nodes = folded([event for event in events if event.time <= second], rules)[0].ledger.nodes
    excluded = {key for key, node in nodes.items() if is_excluded(node, second, rules)}
    assert excluded == {
        spell.node
        for spell in found.spells
        if spell.since <= second and (spell.until is None or second < spell.until)
    }


@given(any_histories() | disturbed_histories(), st.sampled_from([SEED_POLICY, RELAY_POLICY]))
@settings(max_examples=60)
def test_candidates_kept_ready_spread_tasks_as_judging_every_node_does(events, policy):
    if not events:
        return
    rules = {"seed": SEED, "relay": RELAY}[policy.name]
    fast, slow = (measured(events, rules, each, Asked())[1] for each in (policy, OneByOne(policy)))
    assert fast == slow
