"""Five worked draws: the file, an independent reference and the product agree."""

from oracle.domain.ids import Address, Hash, TaskKey
from oracle.domain.state import Membership, Node, create_node, create_task
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import CrynuxPolicy, Weighting
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.weighted_draw import compute_draw_seed, draw_nodes
from tests.support.vectors import FOLDER, Vector, vectors_of
from tests.unit.domain.scoring.test_vectors_reliability import units
from tests.unit.systems.crynux.reference_draw import text
from tests.unit.systems.crynux.scenes import NOW, a_policy_input

# The file is for the formula alone; the floor has its own vectors (seed-2.json).
UNFLOORED = Weighting(weight_floor=0)


def node_of(vector: Vector) -> Node:
    node = create_node(Address(vector["address"]), 0, NOW, 0)
    node.membership = Membership.MEMBER
    node.stake = int(vector["stake"])
    node.pool = bytes(vector["scores"])
    node.pool_sum = sum(node.pool)
    node.base = units(vector["reliability"])
    node.models = tuple(vector["on_disk"])
    node.in_use = tuple(vector["in_use"])
    node.running = int(vector["busy"])
    return node


def test_vector_file_matches_reference():
    assert (FOLDER / "draw.json").read_text(encoding="utf-8") == text()


@vectors_of("draws", file="draw")
def test_seeds_and_draws_match_worked_examples_in_vectors(vector):
    expected = vector["expected"]
    nodes = [node_of(node_fields) for node_fields in vector["nodes"]]
    task = create_task(TaskKey(vector["task"]))
    task.models = tuple(vector["models"])
    seed = compute_draw_seed(Hash(vector["block_hash"]), task.key)
    assert f"0x{seed.hex()}" == expected["seed"]

    verdicts = (
        CrynuxPolicy("crynux", 2, UNFLOORED)
        .create_evaluator()
        .evaluate_candidates(task, a_policy_input(nodes))
    )
    able = [verdict for verdict in verdicts if verdict.weight is not None]
    assert [{"node": verdict.node, **verdict.parts} for verdict in able] == expected["candidates"]

    drawn = draw_nodes(
        [(candidate.node, candidate.weight or 0) for candidate in able], seed, vector["draws"]
    )
    shown_draws = [
        {"i": i, "sum": str(node_draw.total), "digest": node_draw.digest, "x": str(node_draw.x)}
        | {"node": node_draw.node}
        for i, node_draw in enumerate(drawn)
    ]
    assert shown_draws == expected["drawn"]

    pool = CandidatePool(CRYNUX, UNFLOORED)
    for node in nodes:
        pool.update_node(node)
    assert pool.draw_nodes(task, NOW, seed, count=vector["draws"]) == drawn
