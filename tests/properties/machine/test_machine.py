"""Random actions in any order; afterwards the index contains the chain and nothing else."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.properties.machine.faulty import LOUD, QUIET
from tests.properties.machine.world import World

# In CI the examples are always the same; to shrink a failure, run the test elsewhere.
_PHASES = tuple(phase for phase in Phase if "CI" not in os.environ or phase is not Phase.shrink)
# A large run: QOS_ORACLE_MACHINE_EXAMPLES=1000 make machine
_EXAMPLES = int(os.environ.get("QOS_ORACLE_MACHINE_EXAMPLES", "8"))
_STEPS = int(os.environ.get("QOS_ORACLE_MACHINE_STEPS", "30"))

_endpoint = st.integers(0, 2)
# The number of checks after a change of the chain.
_steps = st.sampled_from((0, 2, 3))


class Machine(RuleBasedStateMachine):
    """The possible actions; `template` is set by the test."""

    template: Path
    world: World

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.world = World(seed, self.template)

    @rule(blocks=st.integers(1, 12), seconds=st.sampled_from((0, 1, 12, 12, 70)), steps=_steps)
    def mine(self, blocks: int, seconds: int, steps: int) -> None:
        self.world.mine(blocks, seconds)
        self.world.follow(steps)

    @rule(depth=st.integers(1, 8), blocks=st.integers(1, 10), steps=_steps)
    def fork(self, depth: int, blocks: int, steps: int) -> None:
        self.world.fork(depth, blocks)
        self.world.follow(steps)

    @rule(which=_endpoint)
    def stay(self, which: int) -> None:
        self.world.stay(self.world.chain.providers[which])

    @rule(which=_endpoint, blocks=st.integers(1, 20))
    def lag(self, which: int, blocks: int) -> None:
        self.world.lag(self.world.chain.providers[which], blocks)

    @rule(which=_endpoint)
    def come_back(self, which: int) -> None:
        self.world.come_back(self.world.chain.providers[which])

    @rule(which=_endpoint, depth=st.integers(8, 24))
    def finalize(self, which: int, depth: int) -> None:
        self.world.finalize(self.world.chain.providers[which], depth)

    @rule(blocks=st.integers(0, 40))
    def prune(self, blocks: int) -> None:
        self.world.prune(blocks)

    @rule(which=_endpoint, fault=st.sampled_from(sorted(LOUD)))
    def spoil(self, which: int, fault: str) -> None:
        self.world.spoil(self.world.chain.providers[which], LOUD[fault]())

    @rule(fault=st.sampled_from(sorted(QUIET)))
    def lie(self, fault: str) -> None:
        self.world.lie(QUIET[fault]())

    @rule()
    def audit(self) -> None:
        self.world.audit()

    @rule(which=_endpoint)
    def heal(self, which: int) -> None:
        self.world.heal(self.world.chain.providers[which])

    @rule(steps=st.integers(1, 4), seconds=st.sampled_from((0, 1, 12, 61)))
    def step(self, steps: int, seconds: int) -> None:
        self.world.follow(steps, seconds)

    @rule(calls=st.integers(0, 60))
    def crash(self, calls: int) -> None:
        self.world.crash(calls)

    @rule(first=_endpoint)
    def restart(self, first: int) -> None:
        self.world.restart(first)

    @rule(now=st.integers(0, 9))
    def quiesce_sometimes(self, now: int) -> None:
        # Rarely, because it takes as long as everything else together.
        if now == 0:
            self.world.quiesce()
            self.world.check()

    def teardown(self) -> None:
        # Without a world, creating it failed.
        if hasattr(self, "world"):
            try:
                self.world.quiesce()
                self.world.check()
            finally:
                self.world.close()


@pytest.mark.slow
def test_index_eventually_equals_chain_under_random_operations(sqlite_template: Path):
    Machine.template = sqlite_template
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=_EXAMPLES,
            stateful_step_count=_STEPS,
            phases=_PHASES,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
