"""The incremental pool of candidates equals a scan of all nodes after every change."""

from dataclasses import replace

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.systems.crynux import candidate_pool as pool_module
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_WEIGHTING,
    RELAY_WEIGHTING,
    Weighting,
    evaluate_members,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from oracle.systems.registry import build_rules
from oracle.systems.weighted_draw import draw_nodes
from tests.support import histories
from tests.support.examples import examples
from tests.unit.systems.crynux.networks import NAMES, ROWS, networks, requests
from tests.unit.systems.crynux.scenes import NOW, a_node, a_policy_input, a_task

LEGACY = {
    "vram_weight": "0.3",
    "timeout_weight": "0.2",
    "speed_weight": "0.5",
    "least_timeout_seconds": "60",
    "kickout_below": "2",
    "kickout_tasks": "10",
}
SETTINGS: list[tuple[Rules, Weighting]] = [
    (CRYNUX, CRYNUX_WEIGHTING),
    (CRYNUX, Weighting(weight_floor=UNIT // 50)),
    (RELAY, RELAY_WEIGHTING),
    # All pools are lost in the middle of the tested times.
    (replace(RELAY, restarts=(NOW + 30,)), CRYNUX_WEIGHTING),
    # Every score depends on all others.
    (build_rules("legacy", {f"legacy.{name}": LEGACY[name] for name in LEGACY}), CRYNUX_WEIGHTING),
]
TAKEN = st.frozensets(st.sampled_from(NAMES).map(histories.make_node_address), max_size=3)


class Network(RuleBasedStateMachine):
    """A network that changes at random; the pool gets the changes,
    the reference scans all nodes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[Address, Node] = {}
        self.time = NOW
        self.tasks: list[Task] = [a_task()]

    @initialize(setting=st.sampled_from(SETTINGS), nodes=networks())
    def begin(self, setting: tuple[Rules, Weighting], nodes: list[Node]) -> None:
        self.scoring, self.weighting = setting
        self.pool = CandidatePool(*setting)
        for node in nodes:
            self.nodes[node.address] = node
            self.pool.update_node(node)

    @rule(name=st.sampled_from(NAMES), values=ROWS)
    def changes(self, name: str, values: dict[str, object]) -> None:
        changed_node = a_node(name, **values)
        self.nodes[changed_node.address] = changed_node
        self.pool.update_node(changed_node)

    @rule(name=st.sampled_from(NAMES))
    def is_gone(self, name: str) -> None:
        """Remove a node, as when the block of its first event is undone."""
        self.nodes.pop(histories.make_node_address(name), None)
        self.pool.remove_node(histories.make_node_address(name))

    @rule(name=st.sampled_from(NAMES), running=st.integers(0, 1))
    def starts_or_ends(self, name: str, running: int) -> None:
        changed_node = self.nodes.get(histories.make_node_address(name))
        if changed_node is not None:
            changed_node.running = running
            self.pool.update_node(changed_node)

    @rule(task=requests())
    def brings(self, task: Task) -> None:
        self.tasks = [*self.tasks[-2:], task]

    @rule(seconds=st.sampled_from([-600, -40, 12, 40, 600]))
    def goes_on(self, seconds: int) -> None:
        self.time += seconds

    @rule(seed=st.binary(min_size=32, max_size=32), taken=TAKEN)
    def draws(self, seed: bytes, taken: frozenset[Address]) -> None:
        for task in self.tasks:
            expected = draw_nodes(self.plainly(task, taken), seed, 3)
            assert self.pool.draw_nodes(task, self.time, seed, count=3, reserved=taken) == expected

    @rule(taken=TAKEN)
    def judges(self, taken: frozenset[Address]) -> None:
        self.agrees(taken)

    @invariant()
    def agrees_always(self) -> None:
        self.agrees(frozenset())

    def agrees(self, reserved: frozenset[Address]) -> None:
        for task in self.tasks:
            expected = self.plainly(task, reserved)
            assert self.pool.list_candidates(task, self.time, reserved) == expected

    def plainly(self, task: Task, reserved: frozenset[Address]) -> list[tuple[Address, int]]:
        policy_input = a_policy_input(
            self.nodes.values(), self.scoring, time=self.time, taken=reserved
        )
        verdicts = evaluate_members(task, policy_input, self.weighting)
        return [
            (verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None
        ]


TestNetwork = Network.TestCase
TestNetwork.settings = settings(examples(60), stateful_step_count=25)


def test_changed_node_is_evaluated_only_after_update():
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    member = a_node("A")
    pool.update_node(member)
    assert pool.list_candidates(a_task(), NOW)
    member.running = 1
    assert pool.list_candidates(a_task(), NOW)
    pool.update_node(member)
    assert not pool.list_candidates(a_task(), NOW)


def test_largest_stake_is_tracked_when_nodes_are_updated_or_removed():
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    rich = a_node("A", stake=400 * UNIT, running=1)
    poor = a_node("B", stake=100 * UNIT)
    weights = []
    for change in (
        lambda: pool.update_node(poor),
        lambda: pool.update_node(rich),
        lambda: pool.remove_node(rich.address),
    ):
        change()
        weights += [weight for _, weight in pool.list_candidates(a_task(), NOW)]
    # S is 1, 1/2, 1; QoS is 1/2: harmonic means.
    assert weights == [UNIT // 3, UNIT // 4, UNIT // 3]


def test_exclusion_can_be_evaluated_at_earlier_time():
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    pool.update_node(a_node("A", base=UNIT // 20))
    pool.update_node(a_node("B"))
    for seconds, members in ((600, "AB"), (0, "B"), (600, "AB"), (0, "B")):
        candidates = [address for address, _ in pool.list_candidates(a_task(), NOW + seconds)]
        assert candidates == [*map(histories.make_node_address, members)]
        drawn = pool.draw_nodes(a_task(), NOW + seconds, bytes(32), count=9)
        assert {node_draw.node for node_draw in drawn} == set(candidates)


def test_weight_floor_applies_during_recovery():
    pool = CandidatePool(CRYNUX, Weighting(weight_floor=UNIT // 50))
    pool.update_node(a_node("A", pool=bytes(3), base=UNIT // 2))
    assert pool.list_candidates(a_task(), NOW) == [(histories.make_node_address("A"), UNIT // 50)]


def test_task_has_no_candidate_without_models_or_fallback():
    pool = CandidatePool(RELAY, RELAY_WEIGHTING)
    task = a_task(models=("base:a",))
    pool.update_node(a_node("A"))
    assert not pool.list_candidates(task, NOW)
    pool.update_node(a_node("B", models=("base:a",)))
    assert [address for address, _ in pool.list_candidates(task, NOW)] == [
        histories.make_node_address("B")
    ]


def test_restart_without_a_later_score_does_not_change_the_weight():
    rules = replace(RELAY, restarts=(NOW + 30,))
    pool = CandidatePool(rules, CRYNUX_WEIGHTING)
    pool.update_node(a_node("A", pool=bytes([10, 5])))
    weights = [pool.list_candidates(a_task(), NOW + seconds)[0][1] for seconds in (0, 30, 29)]
    assert weights == [75 * UNIT // 175] * 3


def test_candidates_follow_many_node_changes():
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    nodes = [a_node(f"{n}", stake=n * UNIT) for n in range(300)]
    for node in nodes:
        pool.update_node(node)
    assert len(pool.list_candidates(a_task(), NOW)) == len(nodes)
    for node in nodes[:250]:
        node.running = 1
        pool.update_node(node)
    candidates = [address for address, _ in pool.list_candidates(a_task(), NOW)]
    assert candidates == sorted(node.address for node in nodes[250:])


def test_number_of_cached_requirements_is_limited():
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    pool.update_node(a_node("A", gpu_vram=10_000))
    for vram in range(1, 300):
        assert pool.list_candidates(a_task(min_vram=vram), NOW)
    assert len(pool._views) == pool_module._MAX_VIEWS


def test_cached_requirements_are_limited_in_a_large_network(monkeypatch):
    monkeypatch.setattr(pool_module, "_MAX_INDEXED_NODES", 1_000)
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    for n in range(300):
        pool.update_node(a_node(f"{n}"))
    for n in range(20):
        assert len(pool.list_candidates(a_task(models=(f"base:{n}",)), NOW)) == 300
        assert kept_in(pool) <= 1_000
    # The latest ones are still ready.
    assert len(pool._views) == 3


def test_newest_requirement_stays_cached_even_in_a_large_network(monkeypatch):
    monkeypatch.setattr(pool_module, "_MAX_INDEXED_NODES", 100)
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    for n in range(300):
        pool.update_node(a_node(f"{n}"))
    for models in ((), ("base:a",), ()):
        assert len(pool.list_candidates(a_task(models=models), NOW)) == 300
        assert kept_in(pool) == 300


def test_pending_changes_of_unused_requirements_are_limited():
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    nodes = [a_node(f"{n}", gpu_vram=24) for n in range(300)]
    for node in nodes:
        pool.update_node(node)
    for n in range(20):
        assert pool.list_candidates(a_task(min_vram=n), NOW)
    for node in nodes:
        pool.update_node(node)
    assert sum(len(view.changed_addresses) for view in pool._views.values()) <= 20 * 101


def kept_in(pool: CandidatePool) -> int:
    return sum(len(view.with_models) + len(view.without_models) for view in pool._views.values())
