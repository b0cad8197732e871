"""Random calls on the contracts of roots: each is predicted, and the invariants hold after each.

`make fuzz` makes a hundred thousand of them. pyrevm has no wheel for every machine
(docs/archive/decisions/0094-contract-fuzzing-in-process.md).
"""

from typing import Any

import pytest

fuzz: Any = pytest.importorskip("tests.contracts.fuzz.run", exc_type=ModuleNotFoundError)
walk: Any = pytest.importorskip("tests.contracts.fuzz.roots.walk", exc_type=ModuleNotFoundError)

pytestmark = pytest.mark.slow

SEED, CALLS = 3, 4_000


def test_invariants_hold_over_4000_random_calls():
    tally = fuzz.run_walks(SEED, CALLS)
    assert tally.calls == CALLS
    # Every error and every event of the three contracts occurred.
    assert tally.missing() == []


def test_same_seed_repeats_the_same_random_calls():
    walks = [walk.RootsWalk(SEED, 7) for _ in range(2)]
    for seeded_walk in walks:
        seeded_walk.run(100)
    assert walks[0].steps == walks[1].steps
    assert walks[0].state == walks[1].state


@pytest.mark.nightly
def test_mismatch_with_the_model_is_reported_with_a_minimal_call_sequence(
    monkeypatch: pytest.MonkeyPatch,
):
    """Here the model is wrong: it accepts words of any round."""
    find_refusal = walk.find_refusal

    def overlook_wrong_rounds(*arguments: Any) -> str | None:
        error: str | None = find_refusal(*arguments)
        is_of_words = arguments[2].name == "bring"
        return None if is_of_words and error == "WrongRound" else error

    monkeypatch.setattr(walk, "find_refusal", overlook_wrong_rounds)
    with pytest.raises(AssertionError, match="WrongRound") as caught:
        fuzz.run_walks(SEED, CALLS)
    head, *lines = str(caught.value).splitlines()
    steps = [line for line in lines if line.startswith("Step(")]
    assert 0 < len(steps) < int(head.partition("step ")[2].partition(":")[0])
    assert "bring" in steps[-1]
