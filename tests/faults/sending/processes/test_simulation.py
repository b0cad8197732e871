"""The first worlds of each setting out of ten thousand seeded ones; `make sim` plays all.

The chain executes everything that it receives, so a duplicate send is visible.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oracle.txmgr import fee_bump, unconfirmed
from tests.simulation import replica
from tests.simulation.books import Wished
from tests.simulation.goals import Goals
from tests.simulation.settings import SETTINGS
from tests.simulation.world_runs import play, play_naive, template

# A large run: make sim
_ROUNDS = int(os.environ.get("QOS_ORACLE_SIMULATED_ROUNDS", "25"))
_NAIVE_WORLDS = 8

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def empty_template() -> Iterator[Path]:
    with template() as template_path:
        yield template_path


@pytest.mark.parametrize("name", SETTINGS)
def test_case_f74_invariants_hold_in_simulation_with_faults(name: str, empty_template: Path):
    setting = SETTINGS[name]
    for seed in range(1, -(-_ROUNDS // SETTINGS[name].rounds) + 1):
        played = play(setting, seed, empty_template)
        assert played.faults == (), f"{name}, seed {seed}"
        assert played.verdict.is_clean, f"{name}, seed {seed}: {played.verdict}"


@pytest.mark.parametrize("size", [3, 100])
@pytest.mark.parametrize("name", ["two", "twice the noise", "short account balance"])
def test_case_f74_invariants_hold_in_simulation_of_batched_calls(
    name: str, size: int, empty_template: Path
):
    for seed in (1, 2):
        played = play(replace(SETTINGS[name], rounds=8, batch_size=size), seed, empty_template)
        assert played.faults == (), f"{name}, seed {seed}"
        assert played.verdict.is_clean, f"{name}, seed {seed}: {played.verdict}"


def test_case_f74_simulation_contains_every_kind_of_fault(empty_template: Path):
    played = play(replace(SETTINGS["twice the noise"], rounds=12), 1, empty_template)
    happened = " ".join(played.passed)
    for mishap in ("died", "stalled", "reorg", "spike", "lag", "answer lost", "pool lost"):
        assert mishap in happened


def test_same_seed_produces_identical_simulation(empty_template: Path):
    setting = replace(SETTINGS["two"], rounds=6)
    first = play(setting, 11, empty_template)
    second = play(setting, 11, empty_template)
    assert (first.blocks, first.passed) == (second.blocks, second.passed)


def test_simulation_cache_does_not_change_outcome(empty_template: Path):
    """The cache reads the database less often than the daemon, with the same results."""
    setting = replace(SETTINGS["twice the noise"], rounds=6)
    quick: list[str] = []
    slow: list[str] = []
    played = play(setting, 5, empty_template, quick.append)
    assert played == play(setting, 5, empty_template, slow.append, remembers=False)
    assert quick == slow


def test_expired_calls_do_not_block_later_calls():
    """Without the fix, three calls that expired together were never requested again."""
    goals = Goals(24)
    wished_by_goal = dict.fromkeys(goals.pushes, Wished("final", 1, is_over=True))
    wished_by_goal |= dict.fromkeys(goals.others[:3], Wished("expired", 1, is_over=True))
    assert goals.next_other(wished_by_goal) == goals.others[0]


def test_skipping_confirmation_violates_invariant_i8(
    empty_template: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(replica, "confirm_transactions", lambda *_: None)
    played = play(replace(SETTINGS["no noise"], rounds=1), 1, empty_template)
    assert any(fault.startswith("I8") for fault in played.faults)


def test_reservation_above_the_budget_violates_invariant_i10(
    empty_template: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fee_bump, "compute_nonce_budget", lambda *_: 10**30)
    monkeypatch.setattr(unconfirmed, "find_tightest_limit", lambda *_: (10**30, "nothing"))
    # Not in every world, because the account balance must be just too small.
    worlds = [replace(SETTINGS["dear tips"], rounds=1, call_cap=3)] * 6
    faults = [
        fault
        for seed, world in enumerate(worlds)
        for fault in play(world, seed, empty_template).faults
    ]
    assert any(fault.startswith("I10") for fault in faults)


def test_naive_publisher_sends_duplicates_in_the_same_simulation():
    """If no duplicate were detected here, the zeros of the other tests would prove nothing."""
    worlds = [play_naive(SETTINGS["two"], seed) for seed in range(1, _NAIVE_WORLDS + 1)]
    assert sum(world.verdict.doubles for world in worlds) > 0
    assert all(world.verdict.unfinished == 0 for world in worlds)


def test_naive_publisher_is_correct_without_faults():
    """The naive publisher only fails if a fault happens."""
    worlds = [play_naive(SETTINGS["no noise"], seed) for seed in range(1, _NAIVE_WORLDS + 1)]
    assert [world.verdict.is_clean for world in worlds] == [True] * _NAIVE_WORLDS
