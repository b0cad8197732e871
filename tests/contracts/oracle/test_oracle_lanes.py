"""The packed checks agree with plain ones, lane by lane, on words at every edge."""

import random
from collections.abc import Iterator

import pytest

from tests.contracts.oracle_signing import word
from tests.support.evm.chain import Chain

pytestmark = pytest.mark.evm

TOO_HIGH, ERASED, BEYOND = 1, 2, 8
WORDS = 600
EDGES = (0, 1, 2, 3, 101, 102, 103, 5_000, 9_902, 10_001, 10_002, 10_003, 0x7FFF, 0x8000, 0xFFFF)
STEPS = (0, 1, 100, 2_500, 5_000, 9_999, 10_000)
FIRST_INDEX = 16  # of the word that the probe checks


def faults(previous: list[int], lanes: list[int], count: int) -> int:
    past_the_end = lanes[max(count - FIRST_INDEX, 0) :]
    fault_bits = BEYOND if count <= FIRST_INDEX or any(past_the_end) else 0
    if any(lane > 10_002 for lane in lanes):
        return fault_bits | TOO_HIGH
    pairs = zip(previous, lanes, strict=True)
    return fault_bits | (ERASED if any(before and not after for before, after in pairs) else 0)


def fallen(previous: list[int], lanes: list[int], step: int) -> int:
    """A lane falls that is closed, or sinks by more than the step."""
    pairs = zip(previous, lanes, strict=True)
    return sum(before > after + step or before >= 2 > after for before, after in pairs)


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
def test_checks_of_a_packed_word_match_checks_of_each_lane(chain: Chain, seed: int):
    probe = chain.deploy("testing/LanesProbe")
    previous, lanes, _, counts = zip(*scenes(seed), strict=True)

    actual = probe.functions.faults(
        [word(*word_lanes) for word_lanes in previous],
        [word(*word_lanes) for word_lanes in lanes],
        counts,
    ).call()

    expected = [faults(*arguments) for arguments in zip(previous, lanes, counts, strict=True)]
    assert actual == expected
    assert {fault for mask in expected for fault in (1, 2, 8) if mask & fault} == {1, 2, 8}
    assert expected.count(0) > WORDS // 20


@pytest.mark.parametrize("step", STEPS)
def test_falls_and_open_lanes_are_counted_over_many_words(chain: Chain, step: int):
    probe = chain.deploy("testing/LanesProbe")
    within = [scene for scene in scenes(step) if max(*scene[0], *scene[1]) <= 10_002]
    chosen = random.Random(step)  # noqa: S311 -- the same words in every run, nothing secret
    pairs = [(scene[0], [near(chosen, lane, step) for lane in scene[0]]) for scene in within]
    counted = probe.functions.counted(
        [word(*before) for before, _ in pairs], [word(*after) for _, after in pairs], step
    ).call()
    assert counted == [
        sum(fallen(*pair, step) for pair in pairs),
        sum((new >= 2) + (old < 2) for pair in pairs for old, new in zip(*pair, strict=True)),
    ]
    assert 0 < counted[0] < counted[1]


def test_falls_and_open_lanes_are_counted_in_report_of_maximum_size(chain: Chain):
    """2,047 words of 16 lanes, two for each at most: 65,504 is below 2^16."""
    probe = chain.deploy("testing/LanesProbe")
    best, out = [word(*[10_002] * 16)] * 2_047, [word(*[1] * 16)] * 2_047
    counted = probe.functions.counted(best, out, 2_500)
    assert counted.call({"gas": 10**8}) == [2_047 * 16, 0]
    opened = probe.functions.counted(out, best, 2_500)
    assert opened.call({"gas": 10**8}) == [0, 2 * 2_047 * 16]
