"""Weights, locality and candidates, as in the source document and the relay."""

from fractions import Fraction
from math import floor

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_DOCS_POLICY,
    CRYNUX_POLICY,
    RELAY_POLICY,
    CrynuxPolicy,
    compute_locality_boost,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX_DOCS, RELAY
from oracle.systems.crynux.predownload import sort_nodes_by_weight
from oracle.systems.weighted_draw import draw_nodes
from tests.support.histories import make_node_address
from tests.support.vectors import Vector, load_named_vectors, load_vector, vectors_of
from tests.unit.domain.scoring.test_vectors_reliability import close_to, units
from tests.unit.systems.crynux.scenes import a_node, a_policy_input, a_task

# By the text of the documents: tests/vectors/SUPERSEDED.md.
SYSTEMS: dict[str, tuple[Rules, CrynuxPolicy]] = {
    "seed_current": (CRYNUX_DOCS, CRYNUX_DOCS_POLICY),
    "relay_head": (RELAY, RELAY_POLICY),
}
FILTERS = load_named_vectors("candidate_filter")
# Cases with one task and named nodes; the other cases have another form.
PLAIN = {name: entry for name, entry in FILTERS.items() if "expected" in entry}
GATED = "cf-04 base-model gate needs every base model, auxiliaries ignored"
EXCLUDING = "cf-09 excluded node removed, no fallback when all excluded, recovered node kept"
RESERVING = "cf-10 reservations inside one matching round"
VERSIONS = "cf-11 version rule"
MODELS = tuple(f"base:{n}" for n in range(3))


def system_of(vector: Vector) -> tuple[Rules, CrynuxPolicy]:
    return SYSTEMS[vector.get("profile", "seed_current")]


@vectors_of("selection")
def test_weight_combines_stake_qos_and_locality(vector):
    rules, policy = system_of(vector)
    total = vector["nodes"][0]["total"]
    nodes = [weighed_node(f"{n}", node_fields) for n, node_fields in enumerate(vector["nodes"])]
    task = a_task(models=MODELS[:total])
    largest = max(int(node_fields["stake"]) for node_fields in vector["nodes"])
    # The stake of a node that never gets the task counts, too; here it is the same.
    nodes.append(a_node("Z", paused=True, stake=largest))
    verdicts = policy.create_evaluator().evaluate_candidates(task, a_policy_input(nodes, rules))
    parts = [verdict.parts for verdict in verdicts][:-1]
    assert len(parts) == len(vector["expected"])
    everything = sum(units(verdict_parts["W"]) for verdict_parts in parts)
    for node_parts, expected in zip(parts, vector["expected"], strict=True):
        for name in ("S", "QoS", "M", "W"):
            assert close_to(expected[name], units(node_parts[name])), name
        assert close_to(expected["p"], units(node_parts["W"]) * UNIT // everything)


def weighed_node(name: str, vector: Vector) -> Node:
    """Return a vector's node; its QoS is a tenth of the score,
    and it has models `0` to `local`.
    """
    local = vector.get("local", vector["total"])
    score = floor(10 * Fraction(vector["qos"]))
    assert Fraction(score, 10) == Fraction(vector["qos"])
    return a_node(
        name,
        stake=int(vector["stake"]),
        pool=bytes([score]),
        models=MODELS[:local],
        in_use=MODELS[: vector["in_use"]],
    )


def test_zero_mean_counts_as_an_empty_pool_only_under_relay_rules():
    """The relay's rules differ here from those of `crynux`, to which vector sel-05 belongs."""
    nodes = [a_node("A", pool=bytes(3))]
    assert [
        policy.create_evaluator()
        .evaluate_candidates(a_task(), a_policy_input(nodes, rules))[0]
        .parts["QoS"][:3]
        for rules, policy in SYSTEMS.values()
    ] == ["0.0", "0.5"]


@vectors_of("locality_table")
def test_more_local_models_increase_boost(vector):
    holder = a_node("A", models=MODELS[: vector["local"]], in_use=MODELS[: vector["in_use"]])
    boost = compute_locality_boost(
        holder, frozenset(MODELS[: vector["total"]]), CRYNUX_POLICY.weighting
    )
    assert f"{boost / UNIT:.6f}" == vector["boost"]


def candidate(name: str, vector: Vector) -> Node:
    version = vector.get("version")
    return a_node(
        name,
        gpu_name=vector.get("gpu"),
        gpu_vram=vector.get("vram"),
        version=version_of(version),
        models=tuple(vector.get("on_disk", ())),
        running=int(vector.get("status") == "Busy" or "has_current_task" in vector),
        excluded=vector.get("flag", False),
        base=units(vector.get("h", "1")),
    )


def build_task(vector: Vector) -> Task:
    return a_task(
        min_vram=vector.get("min_vram"),
        required_gpu=vector.get("required_gpu"),
        required_gpu_vram=vector.get("required_gpu_vram"),
        version=version_of(vector.get("version")),
        models=tuple(vector.get("models", ())),
    )


def version_of(text: str | None) -> tuple[int, int, int] | None:
    if text is None:
        return None
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch


def candidates(task: Task, nodes: list[Node], system: tuple[Rules, CrynuxPolicy]) -> list[Address]:
    rules, policy = system
    verdicts = policy.create_evaluator().evaluate_candidates(task, a_policy_input(nodes, rules))
    return [verdict.node for verdict in verdicts if verdict.weight is not None]


def addresses(names: list[str]) -> list[Address]:
    return sorted(make_node_address(name) for name in names)


@pytest.mark.parametrize("name", PLAIN)
def test_candidates_match_the_selection_vectors(name):
    vector = PLAIN[name]
    nodes = [candidate(node_name, values) for node_name, values in vector["nodes"].items()]
    systems = [system_of(vector)] if "profile" in vector else SYSTEMS.values()
    for system in systems:
        assert candidates(build_task(vector["task"]), nodes, system) == addresses(
            vector["expected"]
        )


def test_weight_under_relay_policy_ignores_models_on_disk():
    vector = FILTERS[GATED]
    nodes = [candidate(node_name, values) for node_name, values in vector["nodes"].items()]
    verdicts = RELAY_POLICY.create_evaluator().evaluate_candidates(
        build_task(vector["task"]), a_policy_input(nodes, RELAY)
    )
    boosts = {verdict.parts["M"] for verdict in verdicts if verdict.weight is not None}
    assert [Fraction(boost) for boost in boosts] == [vector["on_disk_weight_boost"]]


@pytest.mark.parametrize("case", FILTERS[EXCLUDING]["cases"])
def test_excluded_node_is_no_candidate_until_it_recovers(case):
    nodes = [candidate(node_fields["id"], node_fields) for node_fields in case["nodes"]]
    assert candidates(a_task(), nodes, SYSTEMS["relay_head"]) == addresses(case["expected"])


@pytest.mark.parametrize("case", FILTERS[RESERVING]["cases"])
def test_reserved_node_is_not_drawn_again(case):
    nodes = [a_node(name) for name in FILTERS[RESERVING]["candidates"]]
    reserved = frozenset(addresses(case["reserved"]))
    verdicts = RELAY_POLICY.create_evaluator().evaluate_candidates(
        a_task(), a_policy_input(nodes, RELAY, taken=reserved)
    )
    left = [(verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None]
    drawn = draw_nodes(left, bytes(32), 1)
    expected = case["expected"]
    assert [node_draw.node for node_draw in drawn] == (
        [] if expected is None else [make_node_address(expected)]
    )
    assert (not left) == bool(case["empty_pool_count"])


@pytest.mark.parametrize("case", FILTERS[VERSIONS]["cases"])
def test_node_fits_only_tasks_of_its_major_version(case):
    nodes = [a_node("A", version=version_of(case["node"]))]
    task = a_task(version=version_of(case["task"]))
    assert bool(candidates(task, nodes, SYSTEMS["seed_current"])) == case["ok"]


# Named here, so that the list of covered vectors is complete without running the test.
ZERO_WEIGHT_LAST = load_vector(
    "model_distribution/md-02 zero-weight nodes come last, in address order"
)


def test_zero_weight_nodes_are_sorted_last_by_address():
    vector = ZERO_WEIGHT_LAST
    weights = [
        (Address(node_fields["address"]), node_fields["stake"]) for node_fields in vector["nodes"]
    ]
    assert sort_nodes_by_weight(weights) == vector["expected"]
