"""ExampleSelector on the hot set: draws by weight, among the caller's candidates."""

from dataclasses import dataclass

import pytest
from web3.contract import Contract
from web3.exceptions import ContractCustomError

from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.due_leaves import DUE, wait_until_ready
from tests.contracts.roots.root_rounds import make_leaves, node_address
from tests.contracts.roots.roots_driver import LAG, LIMITS, RootsOracle
from tests.contracts.roots.words_driver import deploy_words

pytestmark = pytest.mark.evm

LANES = {0: {"lane": 9_002}, 1: {"lane": 2}, 2: {"lane": 1}}
# Weights of 9001, 1, 0, and, of an address without a leaf, 5000.
GOOD, POOR, OUT, NEW = 0, 1, 2, 77


@dataclass
class Draw:
    """A selector on the hot set of an oracle."""

    roots: RootsOracle
    selector: Contract

    def pick(self, *candidates: int, seed: int) -> int:
        addresses = [self.address(seat) for seat in candidates]
        drawn = self.selector.functions.pick(addresses, seed).call(block_identifier="latest")
        return next(seat for seat in candidates if self.address(seat) == drawn)

    def address(self, seat: int) -> str:
        return self.roots.chain.web3.to_checksum_address(node_address(seat))


@pytest.fixture
def draw(roots: RootsOracle) -> Draw:
    words = deploy_words(roots, fall_share=10_000)
    first = roots.last_round
    for _ in range(LAG):
        roots.push_leaves(make_leaves(NODES, LANES))
    words.bind(first, GOOD, POOR, OUT)
    words.bring(roots.last_round, 0, 2)
    return Draw(roots, roots.chain.deploy("ExampleSelector", words.contract.address))


def let_scores_age(roots: RootsOracle) -> None:
    roots.chain.later(LIMITS["maxAgeSeconds"] + 1)
    roots.chain.mine()


@pytest.mark.parametrize(
    ("seed", "drawn"),
    [(0, GOOD), (9_000, GOOD), (9_001, POOR), (9_002, NEW), (14_001, NEW), (14_002, GOOD)],
)
def test_seed_selects_node_by_weight(draw: Draw, seed: int, drawn: int):
    assert draw.pick(GOOD, POOR, OUT, NEW, seed=seed) == drawn


def test_unselectable_node_is_never_drawn(draw: Draw):
    assert draw.pick(OUT, POOR, OUT, seed=10**30) == POOR


@pytest.mark.parametrize("candidates", [(), (OUT,), (OUT, OUT)])
def test_draw_without_selectable_candidates_reverts(draw: Draw, candidates: tuple[int, ...]):
    with pytest.raises(ContractCustomError):
        draw.pick(*candidates, seed=1)


@pytest.mark.parametrize(("seed", "drawn"), [(4_999, GOOD), (5_000, POOR), (10_000, OUT)])
def test_nodes_have_equal_chances_if_scores_are_stale(draw: Draw, seed: int, drawn: int):
    let_scores_age(draw.roots)
    assert draw.pick(GOOD, POOR, OUT, seed=seed) == drawn


def test_expelled_node_is_not_drawn_even_if_scores_are_stale(draw: Draw):
    leaves = make_leaves(NODES, {**LANES, OUT: DUE})
    draw.roots.push_leaves(leaves)
    draw.roots.accuse(OUT)
    wait_until_ready(draw.roots, leaves)
    draw.roots.execute(OUT)
    let_scores_age(draw.roots)
    assert draw.pick(OUT, POOR, seed=0) == POOR
    with pytest.raises(ContractCustomError):
        draw.pick(OUT, seed=0)
