"""The example consumer: draws by weight, excludes nobody but the expelled when the oracle is dead."""

from dataclasses import dataclass

import pytest
from web3.contract import Contract
from web3.exceptions import ContractCustomError

from tests.contracts.oracle_driver import LIMITS, Oracle, full, node
from tests.contracts.oracle_kickouts import DELAY, ROUNDS
from tests.support.evm.chain import Chain

pytestmark = pytest.mark.evm

GOOD, POOR, OUT, NEW = node(0), node(1), node(2), node(77)
LANES = full(9_002, 2, 1)


@dataclass(frozen=True)
class Draw:
    """The selector; node 0 has 0.9, node 1 has 0, node 2 is not to be selected, node 77 is new."""

    oracle: Oracle
    selector: Contract

    def pick(self, *candidates: str, seed: int) -> str:
        return str(self.selector.functions.pick(candidates, seed).call())


@pytest.fixture
def draw(chain: Chain, oracle: Oracle) -> Draw:
    oracle.reported((0, LANES))
    return Draw(oracle, chain.deploy("ExampleSelector", oracle.contract.address))


@pytest.mark.parametrize(
    ("seed", "drawn"),
    [(0, GOOD), (9_000, GOOD), (9_001, POOR), (9_002, NEW), (14_001, NEW), (14_002, GOOD)],
)
def test_the_seed_falls_on_a_node_by_its_weight(draw: Draw, seed: int, drawn: str):
    assert draw.pick(GOOD, POOR, OUT, NEW, seed=seed) == drawn


def test_one_that_is_not_to_be_selected_is_never_drawn(draw: Draw):
    assert draw.pick(OUT, POOR, OUT, seed=10**30) == POOR


@pytest.mark.parametrize("candidates", [(), (OUT,), (OUT, OUT)])
def test_where_nobody_may_be_selected_it_says_so(draw: Draw, candidates: tuple[str, ...]):
    with pytest.raises(ContractCustomError):
        draw.pick(*candidates, seed=1)


@pytest.mark.parametrize(("seed", "drawn"), [(4_999, GOOD), (5_000, POOR), (10_000, OUT)])
def test_a_dead_oracle_excludes_nobody_and_ranks_nobody(draw: Draw, seed: int, drawn: str):
    draw.oracle.chain.later(LIMITS["maxAgeSeconds"] + 1)
    draw.oracle.chain.mine()
    assert draw.pick(GOOD, POOR, OUT, seed=seed) == drawn


def test_an_expelled_node_is_not_drawn_even_when_the_oracle_is_dead(draw: Draw):
    oracle = draw.oracle
    oracle.propose(OUT)
    for _ in range(ROUNDS):
        oracle.reported((0, LANES))
    oracle.chain.later(DELAY)
    oracle.execute(OUT)
    oracle.chain.later(LIMITS["maxAgeSeconds"] + 1)
    oracle.chain.mine()
    assert draw.pick(OUT, POOR, seed=0) == POOR
    with pytest.raises(ContractCustomError):
        draw.pick(OUT, seed=0)
