"""The errors with which the hot set and the challenges must reject a step,
in the order of the checks.
"""

from typing import Any

from tests.contracts.fuzz.roots.refusals import (
    ORACLE_RULES,
    Reasons,
    Rule,
    find_first,
)
from tests.contracts.fuzz.roots.state import Place, State, count_falls
from tests.contracts.fuzz.roots.step import OF_THE_NETWORK, SCHEDULE, Step
from tests.contracts.fuzz.roots.trees import (
    BEST_LANE,
    Tree,
    hash_words,
    is_proven,
    lanes_of,
    read_leaf,
)

MAX_RUN = 2_048
PANIC = "Panic"


def find_refusal(place: Place, state: State, step: Step) -> str | None:
    """Return the error that a step must cause, or None if it must be accepted.

    The state already has the time of the step.
    """
    if step.name in OF_THE_NETWORK or step.name == SCHEDULE:
        return None
    caller = place.network if step.is_forwarded else step.caller
    return find_first(_RULES[step.name](place, state, step, caller))


# --- words ---


def is_limited(place: Place, state: State, round_: int) -> bool:
    """Return whether the limit of falls applies to words of the last or the lagged round."""
    return round_ + place.lag != state.round


def _bring(place: Place, state: State, step: Step, _: int) -> Reasons:
    arguments: tuple[Any, ...] = step.arguments
    round_, first, words, proof = arguments
    run = len(words)
    is_of_two_rounds = round_ in {state.round, state.round - place.lag}
    yield "WrongRound", not is_of_two_rounds
    is_aligned = 0 < run <= MAX_RUN and run & (run - 1) == 0 and first % run == 0
    yield "BadRun", not is_aligned
    root = state.root_of(place, round_)
    yield "NoRoot", root is None
    assert root is not None
    yield "WordsNotProven", not is_proven(root, hash_run(first, words), proof)
    lanes = [lane for word in words for lane in lanes_of(word)]
    yield "LaneTooHigh", max(lanes) > BEST_LANE
    yield "NothingWritten", not find_written(place, state, round_, first, words)


def hash_run(first: int, words: list[int]) -> bytes:
    """Return the root of an aligned run; an empty word is an empty place."""
    hashes = [
        hash_words((first + place, word)) if word else bytes(32)
        for place, word in enumerate(words)
    ]
    return Tree.build(hashes).root


def find_written(
    place: Place, state: State, round_: int, first: int, words: list[int]
) -> list[tuple[int, int, int]]:
    """Return index, word and falls of each word of a run that must be written."""
    falls = state.counts_today.falls
    allowed = state.allowed_falls(place)
    written = []
    for index, word in enumerate(words, first):
        stored, stored_round = state.word(index)
        if word == 0 or stored_round >= round_:
            continue
        fallen = 0
        if is_limited(place, state, round_) and word != stored:
            fallen = count_falls(stored, word, place.big_fall)
        if falls + fallen > allowed:
            continue
        falls += fallen
        written.append((index, word, fallen))
    return written


def _bind(place: Place, state: State, step: Step, _: int) -> Reasons:
    leaves: Any
    proofs: Any
    leaves, proofs = step.arguments
    root = state.root_of(place, state.round - place.lag)
    yield "NoRoot", root is None
    assert root is not None
    for at, leaf in enumerate(leaves):
        yield PANIC, at >= len(proofs)
        yield "NotProven", not is_proven(root, hash_words(leaf), proofs[at])


# --- challenges ---


def _of_round(place: Place, state: State, round_: Any, *proven: Any) -> Reasons:
    root = state.root_of(place, round_)
    yield "NoRoot", root is None
    assert root is not None
    for leaf, proof in proven:
        yield "NotProven", not is_proven(root, hash_words(leaf), proof)


def _two_leaves(place: Place, state: State, step: Step, _: int) -> Reasons:
    first: Any
    second: Any
    round_, first, proof, second, other_proof = step.arguments
    yield from _of_round(place, state, round_, (first, proof), (second, other_proof))
    leaf = read_leaf(first)
    other = read_leaf(second)
    contradicts = leaf.node == other.node or leaf.seat == other.seat or leaf.is_in_gap(other.node)
    yield "NothingWrong", first == second or not contradicts
    yield "NothingWrong", round_ in state.reasons


def _wrong_lane(place: Place, state: State, step: Step, _: int) -> Reasons:
    abi: Any
    round_, abi, proof = step.arguments
    yield from _of_round(place, state, round_, (abi, proof))
    leaf = read_leaf(abi)
    yield "NothingWrong", leaf.lane == leaf.expected_lane or round_ in state.reasons


def _wrong_pool(place: Place, state: State, step: Step, _: int) -> Reasons:
    abi: Any
    pool: Any
    round_, abi, proof, pool = step.arguments
    yield from _of_round(place, state, round_, (abi, proof))
    leaf = read_leaf(abi)
    is_its_pool = leaf._replace(pool=pool, forged_hash=0).pool_hash == leaf.pool_hash
    is_right = (leaf.score_count, leaf.score_sum) == (len(pool), sum(pool))
    yield "NothingWrong", not is_its_pool or is_right or round_ in state.reasons


_RULES: dict[str, Rule] = {
    **ORACLE_RULES,
    "bring": _bring,
    "bind": _bind,
    "twoLeaves": _two_leaves,
    "wrongLane": _wrong_lane,
    "wrongPool": _wrong_pool,
}
