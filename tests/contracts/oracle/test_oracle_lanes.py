"""The packed checks agree with plain ones, lane by lane, on words at every edge."""

import random
from collections.abc import Iterator

import pytest

from tests.contracts.oracle_driver import word
from tests.support.evm.chain import Chain

pytestmark = pytest.mark.evm

TOO_HIGH, ERASED, STEP_OVER, BEYOND = 1, 2, 4, 8
WORDS = 600
EDGES = (0, 1, 2, 3, 101, 102, 103, 5_000, 9_902, 10_001, 10_002, 10_003, 0x7FFF, 0x8000, 0xFFFF)
STEPS = (1, 100, 5_000, 9_999, 10_000)
FIRST_INDEX = 16  # of the word that the probe checks


def step_over(before: int, after: int, step: int) -> bool:
    return min(before, after) >= 2 and abs(before - after) > step


def faults(previous: list[int], lanes: list[int], step: int, count: int) -> int:
    past_the_end = lanes[max(count - FIRST_INDEX, 0) :]
    found = BEYOND if count <= FIRST_INDEX or any(past_the_end) else 0
    if any(lane > 10_002 for lane in lanes):
        return found | TOO_HIGH
    pairs = list(zip(previous, lanes, strict=True))
    if any(before and not after for before, after in pairs):
        found |= ERASED
    if any(step_over(before, after, step) for before, after in pairs):
        found |= STEP_OVER
    return found


def near(chosen: random.Random, before: int, step: int) -> int:
    """A lane about one step away from `before`, or an edge, or anything."""
    candidates = [before, before + step, before - step, before + step + 1, before - step - 1]
    candidates += [chosen.choice(EDGES[:11]), chosen.randrange(10_003)]
    return min(max(chosen.choice(candidates), 0), 10_002)


def scenes(seed: int) -> Iterator[tuple[list[int], list[int], int, int]]:
    chosen = random.Random(seed)  # noqa: S311 -- the same words in every run, nothing secret
    for number in range(WORDS):
        step = chosen.choice(STEPS)
        quiet = chosen.randrange(10_003)  # most lanes of a scene are faultless: faults stay single
        previous = [quiet] * 16
        lanes = [max(quiet, 1)] * 16
        for place in chosen.sample(range(16), chosen.randint(1, 3)):
            previous[place] = chosen.choice((*EDGES[:11], chosen.randrange(10_003)))
            lanes[place] = near(chosen, previous[place], step)
            if number % 5 == 0:
                lanes[place] = chosen.choice((*EDGES, chosen.randrange(1 << 16)))
        count = chosen.choice((0, 16, 17, 24, 31, 32, 33, 1_000))
        if number % 3 and count < 32:
            lanes[max(count - 16, 0) :] = [0] * (32 - max(count, 16))
        yield previous, lanes, step, count


@pytest.mark.parametrize("seed", [1, 2])
def test_sixteen_lanes_at_once_are_checked_as_one_by_one(chain: Chain, seed: int):
    probe = chain.deploy("testing/LanesProbe")
    asked = list(scenes(seed))
    previous, lanes, steps, counts = zip(*asked, strict=True)

    found = probe.functions.faults(
        [word(*one) for one in previous], [word(*one) for one in lanes], steps, counts
    ).call()

    expected = [faults(*policy_input) for policy_input in asked]
    assert found == expected
    assert {fault for one in expected for fault in (1, 2, 4, 8) if one & fault} == {1, 2, 4, 8}
    assert expected.count(0) > WORDS // 20
