"""The numbers of the legacy documents in the vectors, and those of the contracts of that time."""

import json
from dataclasses import replace
from fractions import Fraction
from math import floor

import pytest

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.legacy_round_scores import RoundScores, compute_round_scores
from oracle.domain.scoring.legacy_factors import (
    PopulationMaxima,
    compute_incentive_shares,
    compute_population_maxima,
    compute_promptness,
    compute_speed_factor,
    compute_vram_share,
)
from oracle.domain.state import Run
from tests.support.document.legacy_queue import LegacyQueue, format_group
from tests.support.histories import History, fold_history, make_node_address, make_task_key
from tests.support.vectors import Vector, load_vector, vectors_of
from tests.unit.systems.legacy.networks import (
    RULES,
    add_scores,
    close_to,
    gpus,
    legacy_with,
    member,
    rules_with,
    waiting_task,
)


@vectors_of("legacy_scores")
def test_legacy_scores_match_vectors(vector):
    _SCORES[vector["id"].split()[0]](vector)


def sizes(vector: Vector) -> None:
    peers = PopulationMaxima(max(vector["vram_gb"]), 0, 0)
    for vram, share in zip(vector["vram_gb"], vector["R"], strict=True):
        assert close_to(share, compute_vram_share(vram, peers))


def promptness(vector: Vector) -> None:
    legacy = legacy_with(least_timeout_seconds=vector["o_min"])
    peers = PopulationMaxima(0, max(vector["timeouts"]), 0)
    # Where the formula divides by 0, the decision is 1 for every node.
    expected = vector["P"] or ["1"] * len(vector["timeouts"])
    for timeout, share in zip(vector["timeouts"], expected, strict=True):
        assert close_to(share, compute_promptness(timeout, peers, legacy))


def task_scores(vector: Vector) -> None:
    for case in vector["cases"]:
        ranks = [case["commit_rank"], case["disclose_rank"]]
        assert scores_at(*ranks).task_score == case["ts"]


def scores_at(*ranks: int | str) -> RoundScores:
    """Return the scores of a node with these ranks among three;
    the others have the other ranks.
    """
    names = "XYZ"
    history = History().joins("A", *names)
    for place, name in enumerate(("A", *names[:2])):
        history.starts("1", name, place=place)
    for rank, says in zip(ranks, (history.commits, history.discloses), strict=True):
        order = [*names[:2]]
        if isinstance(rank, int):
            order.insert(rank - 1, "A")
        for name in order:
            says("1", name)
    runs = fold_history(history, RULES)[0].ledger.tasks[make_task_key("1")].runs
    return compute_round_scores(runs, RULES)[0]


def speeds(vector: Vector) -> None:
    nodes = {
        name: add_scores(member(name), sum(scores), len(scores))
        for name, scores in vector["nodes"].items()
    }
    peers = compute_population_maxima(nodes.values(), 0, RULES)
    assert peers is not None
    for name, scores in vector["nodes"].items():
        mean = floor(Fraction(sum(scores), len(scores)) * UNIT) if scores else None
        for expected, value in (
            (vector["ns"], mean),
            (vector["B"], compute_speed_factor(mean, peers)),
        ):
            assert (expected[name] is None) is (value is None)
            assert value is None or close_to(expected[name], value)


def ignored_task(vector: Vector) -> None:
    (before,) = vector["scores_before"]
    history = History().joins("A").starts("1", "A", place=0).commits("1", "A")
    history.discloses("1", "A").succeeds("1").starts("2", "A", place=0).aborts("2")
    fold, changes = fold_history(history, RULES)
    assert [entry.score for entry in changes.scores] == [before] == vector["scores_after"]
    assert fold.ledger.nodes[make_node_address("A")].window_count == 1


def mining(vector: Vector) -> None:
    example = vector["example"]
    third = floor(Fraction(example["weights"][0]) * UNIT)
    rules = rules_with(
        vram_weight=third, timeout_weight=third, speed_weight=third, least_timeout_seconds=0
    )
    # R, P and B of 1/0.5/0.8 and 0.5/1/0.4, with a third node that sets the maximum but was
    # offline.
    values = ((24, 120, 16, 720), (12, 0, 8, 360), (24, 240, 20, 0))
    nodes = []
    for name, (vram, timeout, score, hours) in zip("ABC", values, strict=True):
        mining_node = add_scores(member(name, gpu_vram=vram, timeout=timeout), score, 1)
        mining_node.online_seconds = hours * 3600
        nodes.append(mining_node)
    shares = compute_incentive_shares(nodes, 0, rules)
    for name, expected in zip("AB", example["expected"], strict=True):
        paid = shares[make_node_address(name)] * int(example["T_a"])
        assert abs(paid - floor(Fraction(expected) * UNIT)) <= 2 * int(example["T_a"])


_SCORES = {
    "lg-01": sizes,
    "lg-02": promptness,
    "lg-03": promptness,
    "lg-04": task_scores,
    "lg-05": speeds,
    "lg-06": ignored_task,
    "lg-07": mining,
}


PROFILE = load_vector("profiles/legacy_doc")


def test_legacy_rules_match_document_profile():
    profile = PROFILE
    numbers = json.loads(RULES.to_json())
    assert numbers["rank_scores"] == profile["round_scores"]
    assert numbers["absent_score"] == profile["timeout_score"]
    assert numbers["q_max"] == profile["max_task_score"]
    assert profile["rounds"] == ["commitment", "disclosure"]
    assert [name.partition("_")[0] for name in RoundScores._fields[::2]] == profile["rounds"]
    assert (profile["window"], numbers["legacy"]["window_seconds"]) == ("calendar month", None)
    assert profile["all_timeout"] == "task ignored"
    assert (
        compute_round_scores([Run(0, make_node_address("A"), Position(1, 0, 0), 0)], RULES) == []
    )


# The contracts of that time scored 10/9/6: without failures, the order is the same.
CONTRACT = replace(RULES, rank_scores=(10, 9, 6))


@vectors_of("legacy_contract_qos")
def test_contract_scores_match_vectors_without_failures(vector):
    history = History().joins("n0", "n1", "n2")
    for place in range(3):
        history.starts("1", f"n{place}", place=place)
    for name in vector.get("commit_order", []):
        history.commits("1", name)
    for name in vector.get("disclose_order", []):
        history.discloses("1", name)
    if "commit_order" not in vector:
        for name in ("n0", "n1", "n2"):
            history.reports_error("1", name)
    _, changes = fold_history(history.aborts("1"), CONTRACT)
    score_by_node = {entry.node: entry.score for entry in changes.scores}
    assert score_by_node == {
        make_node_address(name): score for name, score in vector["expected"].items()
    }


FIGURE = load_vector("queue/q-10 legacy dispatch figure: 3 x RTX 4090 (24GB) free")
PRICES = load_vector("queue/q-11 legacy contract queue, price = fee/cap")


def test_three_free_rtx_4090_nodes_take_task_shown_in_figure():
    tasks = []
    for group, fees in FIGURE["groups"].items():
        kind, vram = group.removesuffix("GB").split("/")
        tasks += [
            waiting_task(f"{group} {fee}", gpt=kind == "GPT", min_vram=int(vram), fee=fee)
            for fee in fees
        ]
    queue = LegacyQueue(lambda queued_task: Fraction(queued_task.fee or 0), tasks)
    nodes = gpus({("RTX 4090", 24): 3})
    offers = queue.offers_for(nodes[0], nodes)
    assert {format_group(offer.group): int(offer.waiting.value) for offer in offers} == FIGURE[
        "candidate_heads"
    ]
    assert int(offers[0].waiting.value) == FIGURE["expected_value"]
    heads = {format_group(group): int(waits[0].value) for group, waits in queue.groups().items()}
    offered_groups = {format_group(offer.group) for offer in offers}
    assert {name: heads[name] for name in heads.keys() - offered_groups} == FIGURE["excluded"]


def test_contract_queue_matches_vector_if_value_is_fee_per_size():
    tasks = [
        waiting_task(f"{n}", fee=task_fields["fee"], size=task_fields["cap"])
        for n, task_fields in enumerate(PRICES["tasks"])
    ]
    queue = LegacyQueue(
        lambda queued_task: Fraction(queued_task.fee or 0, queued_task.size or 1), tasks
    )
    first = next(queue.in_order())
    assert first.key == tasks[PRICES["expected_first_index_0_based"]].key
    assert first.value == PRICES["expected_price"]


@pytest.mark.parametrize("nodes", [[], [member("A")]])
def test_network_without_known_factors_has_population_maxima_of_zero(nodes):
    assert compute_population_maxima(nodes, 0, RULES) == PopulationMaxima(0, 0, 0)
