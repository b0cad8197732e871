"""An independent implementation of the draw, which imports nothing of `oracle`.

Run: .venv/bin/python -m tests.unit.systems.crynux.reference_draw > tests/vectors/draw.json
See docs/reference/scoring-rules.md#the-draw.
"""

import hashlib
import itertools
import json
import math
import sys
from fractions import Fraction
from typing import Any

Json = dict[str, Any]

ONE = 10**18


def word(text: str) -> str:
    return "0x" + hashlib.sha256(text.encode()).hexdigest()


def account(n: int) -> str:
    return "0x" + hashlib.sha256(f"node {n}".encode()).hexdigest()[:40]


def member(n: int, stake: int, scores: list[int], **more: Any) -> Json:
    """Return a member: stake in whole tokens, task scores, H, models on disk and in use, busy."""
    optional_fields: Json = {"reliability": "1", "on_disk": [], "in_use": [], "busy": False} | more
    return {"address": account(n), "stake": str(stake * ONE), "scores": scores} | optional_fields


BASE, LORA = "base:sdxl", "lora:ink"

CASES: list[Json] = [
    {
        "id": "three nodes, one model",
        "models": [BASE],
        "draws": 1,
        "nodes": [
            member(1, 900, [3], on_disk=[BASE], in_use=[BASE]),
            member(2, 400, [10, 10, 10, 5, 10], on_disk=[BASE]),
            member(3, 100, [], on_disk=[BASE]),
        ],
    },
    {
        "id": "a group of three; the largest stake is busy, one has not all models",
        "models": [BASE, LORA],
        "draws": 3,
        "nodes": [
            member(4, 1000, [10, 10], busy=True, on_disk=[BASE, LORA]),
            member(5, 730, [10, 5, 2], on_disk=[BASE, LORA], in_use=[BASE]),
            member(6, 401, [5, 5, 2], reliability="0.51", on_disk=[LORA, BASE], in_use=[]),
            member(7, 400, [10, 0], reliability="0.3", on_disk=[BASE, LORA], in_use=[LORA, BASE]),
            member(8, 999, [10, 10, 10], on_disk=[BASE]),
            member(9, 57, [2, 2, 2], on_disk=["other", BASE, LORA]),
        ],
    },
    {
        "id": "all weights zero: all count 1",
        "models": [],
        "draws": 2,
        "nodes": [
            member(10, 500, [0, 0]),
            member(11, 0, [10]),
            member(12, 250, [0]),
        ],
    },
    {
        "id": "one candidate where two are asked for; nobody has the model",
        "models": [BASE],
        "draws": 2,
        "nodes": [member(13, 400, [5]), member(14, 400, [10], busy=True, on_disk=[BASE])],
    },
    {
        "id": "equal weights, and one of zero that comes last",
        "models": [],
        "draws": 4,
        "nodes": [
            member(15, 400, [5, 5]),
            member(16, 400, [0]),
            member(17, 400, [5]),
            member(18, 400, [10, 0]),
        ],
    },
]


def units(value: Fraction) -> int:
    return math.floor(value * ONE)


def decimal(value: int) -> str:
    return f"{value // ONE}.{value % ONE:018d}"


def qos_of(node: Json) -> int:
    scores = node["scores"]
    long_term = units(Fraction(sum(scores), 10 * len(scores))) if scores else ONE // 2
    return math.floor(long_term * Fraction(node["reliability"]))


def boost_of(node: Json, models: list[str]) -> int:
    if not models:
        return ONE
    local = sum(model in node["on_disk"] for model in models)
    in_use = sum(model in node["in_use"] for model in models)
    seven = Fraction(7, 10)
    three = Fraction(3, 10)
    return ONE + units(seven * local / len(models)) + units(three * in_use / len(models))


def compute_weight(node: Json, models: list[str], max_stake: int) -> Json:
    stake = math.isqrt(int(node["stake"]) * 10**36 // max_stake)
    qos = qos_of(node)
    boost = boost_of(node, models)
    weight = boost * stake * qos // (stake + qos) // ONE if stake + qos else 0
    named = {"S": stake, "QoS": qos, "M": boost, "W": weight}
    return {"node": node["address"]} | {name: decimal(value) for name, value in named.items()}


def candidates_of(case: Json) -> list[Json]:
    nodes = case["nodes"]
    models = case["models"]
    max_stake = max(int(node["stake"]) for node in nodes)
    eligible = [node for node in nodes if not node["busy"]]
    local = [node for node in eligible if set(models) <= set(node["on_disk"])]
    ordered = sorted(local or eligible, key=lambda node: str(node["address"]))
    return [compute_weight(node, models, max_stake) for node in ordered]


def drawn(candidates: list[Json], seed: bytes, draws: int) -> list[Json]:
    left = [(candidate["node"], int(Fraction(candidate["W"]) * ONE)) for candidate in candidates]
    done = []
    for i in range(min(draws, len(left))):
        if all(weight == 0 for _, weight in left):
            left = [(node, 1) for node, _ in left]
        total = sum(weight for _, weight in left)
        digest = hashlib.sha256(seed + i.to_bytes(32, "big")).digest()
        x = int.from_bytes(digest, "big") % total
        heaps = list(itertools.accumulate(weight for _, weight in left))
        node = next(address for (address, _), heap in zip(left, heaps, strict=True) if heap > x)
        left = [pair for pair in left if pair[0] != node]
        done.append({
            "i": i, "sum": str(total), "digest": "0x" + digest.hex(), "x": str(x), "node": node,
        })  # fmt: skip
    return done


def work_out_case(case: Json) -> Json:
    block_hash = word(f"block of {case['id']}")
    task = word(f"task of {case['id']}")
    seed = hashlib.sha256(bytes.fromhex(block_hash[2:] + task[2:])).digest()
    candidates = candidates_of(case)
    return {
        "id": case["id"],
        "block_hash": block_hash,
        "task": task,
        **{key: case[key] for key in ("models", "draws", "nodes")},
        "expected": {
            "seed": "0x" + seed.hex(),
            "max_stake": str(max(int(node["stake"]) for node in case["nodes"])),
            "candidates": candidates,
            "drawn": drawn(candidates, seed, case["draws"]),
        },
    }


def document() -> Json:
    return {
        "_meta": {
            "title": "Five worked draws of the selection",
            "source": "tests/unit/systems/crynux/reference_draw.py, from the formulas alone",
            "units": "S, QoS, M, W: decimals of 18 digits; sum and x: units of 10^-18, or of 1 "
            "where all weights that are left are 0",
        },
        "draws": [work_out_case(case) for case in CASES],
    }


def text() -> str:
    return json.dumps(document(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
