"""What consumers read of a node in each of its states."""

from dataclasses import dataclass

import pytest
from web3.contract import Contract
from web3.exceptions import ContractCustomError

from tests.contracts.oracle_driver import (
    KICK_LIMITS,
    LIMITS,
    START,
    Oracle,
    deployed,
    full,
    node,
)
from tests.contracts.oracle_kickouts import DELAY, KICKED, ROUNDS, pending, ready, worded
from tests.contracts.oracle_signing import word
from tests.support.evm.chain import Chain

pytestmark = pytest.mark.evm

OUTSIDER = node(999)
MAX_AGE = LIMITS["maxAgeSeconds"]
NEWCOMER = 5_000


def answers(oracle: Oracle, who: int | str) -> tuple[int, bool, bool, bool]:
    """(weight, selectable, expelled, pending), as the four views tell."""
    of = who if isinstance(who, str) else node(who)
    selectable, expelled = oracle.read("isSelectable", of), oracle.read("isExpelled", of)
    assert selectable == oracle.score(who)[1] == (oracle.read("weightOf", of) > 0)
    return oracle.read("weightOf", of), selectable, expelled, pending(oracle, who)


def grown_old(oracle: Oracle) -> None:
    """The last round is too old by one second."""
    oracle.chain.at(oracle.head("pushedAt") + MAX_AGE + 1)
    oracle.chain.mine()


@pytest.mark.parametrize(
    ("lane", "score", "weight"),
    [
        (1, (True, False, 0), 0),
        (2, (True, True, 0), 1),
        (3, (True, True, 1), 2),
        (5_002, (True, True, 5_000), 5_001),
        (10_002, (True, True, 10_000), 10_001),
    ],
    ids=["do not select", "0", "0.0001", "0.5", "1.0"],
)
def test_lane_is_decoded_to_score_and_weight(
    oracle: Oracle, lane: int, score: tuple[bool, bool, int], weight: int
):
    oracle.reported((1, full(7, lane, of=4)))
    assert oracle.score(17) == score
    assert answers(oracle, 17) == (weight, score[1], False, False)


def test_unregistered_node_has_the_newcomer_weight(oracle: Oracle):
    """Who is a member, the network knows: the oracle asks nobody."""
    assert oracle.read("scoreOf", OUTSIDER)[:4] == [False, True, 0, 1]
    assert answers(oracle, OUTSIDER) == (NEWCOMER, True, False, False)


def test_every_node_has_the_newcomer_weight_before_the_first_round(chain: Chain):
    oracle = deployed(chain)
    assert not oracle.read("isFresh")
    assert oracle.read("scoreOf", OUTSIDER) == [False, True, 0, 0, chain.time]
    assert answers(oracle, OUTSIDER) == (NEWCOMER, True, False, False)


def test_score_is_returned_with_its_round_and_age(oracle: Oracle):
    oracle.reported((0, full()))
    oracle.chain.later(100)
    oracle.chain.mine()
    assert oracle.read("scoreOf", node(0)) == [True, True, 5_000, 2, 100]


def test_stale_oracle_gives_every_node_the_newcomer_weight(oracle: Oracle):
    oracle.reported((0, full(1, 9_002)))
    oracle.chain.at(oracle.head("pushedAt") + MAX_AGE)
    oracle.chain.mine()
    assert (oracle.read("isFresh"), answers(oracle, 0)[0], answers(oracle, 1)[0]) == (
        True,
        0,
        9_001,
    )
    grown_old(oracle)
    assert not oracle.read("isFresh")
    for who in (0, 1, OUTSIDER):
        assert answers(oracle, who) == (NEWCOMER, True, False, False)
    # The numbers are still told, with their age.
    assert (oracle.score(0), oracle.score(1)) == ((True, True, 0), (True, True, 9_000))

    oracle.reported((0, full(1, 9_002)))
    assert (answers(oracle, 0)[0], answers(oracle, 1)[0]) == (0, 9_001)


def test_pending_kick_does_not_change_the_weight_of_a_node(oracle: Oracle):
    worded(oracle)
    oracle.propose(0)
    assert answers(oracle, 0) == (2_000, True, False, True)
    grown_old(oracle)
    assert answers(oracle, 0) == (NEWCOMER, True, False, True)


def test_expelled_node_has_zero_weight_even_if_the_oracle_is_stale(oracle: Oracle):
    worded(oracle)
    ready(oracle)
    assert oracle.execute(0).names == KICKED
    for _ in range(2):
        assert answers(oracle, 0) == (0, False, True, False)
        # Its lane still says something else.
        assert (oracle.score(0), oracle.lane(0)) == ((True, False, 0), 2_001)
        grown_old(oracle)


def test_node_whose_kick_the_network_refuses_is_still_expelled(oracle: Oracle):
    worded(oracle)
    ready(oracle)
    oracle.by_network("setRefuses", True)
    oracle.execute(0)
    assert oracle.network.functions.isMember(node(0)).call()
    assert answers(oracle, 0) == (0, False, True, False)


def test_expulsion_ends_at_the_time_set_when_it_began(oracle: Oracle):
    """A later change of the length is for later expulsions."""
    day = tuple((KICK_LIMITS | {"kickCooldown": 86_400}).values())
    oracle.do("setKickLimits", day, sender=oracle.admin)
    worded(oracle)
    ready(oracle)
    oracle.execute(0)
    until = oracle.chain.time + 86_400
    oracle.do("setKickLimits", tuple(KICK_LIMITS.values()), sender=oracle.admin)
    assert oracle.held(0)["expelledUntil"] == until
    oracle.chain.at(until - 20)
    worded(oracle)
    oracle.chain.at(until - 1)
    oracle.chain.mine()
    assert answers(oracle, 0) == (0, False, True, False)
    oracle.chain.at(until)
    oracle.chain.mine()
    assert answers(oracle, 0) == (2_000, True, False, False)
    # It can be kicked out again.
    assert "KickProposed" in oracle.propose(0).names


def test_new_oracle_keeps_expelled_nodes_of_the_previous_one(chain: Chain):
    oracle = deployed(chain, expelled=[OUTSIDER, node(5)])
    oracle.registered(6, lane=9_002)
    for who in (OUTSIDER, 5):
        assert answers(oracle, who) == (0, False, True, False)
    assert answers(oracle, 4) == (9_001, True, False, False)
    oracle.do("readmit", node(5), sender=oracle.admin)
    assert answers(oracle, 5) == (9_001, True, False, False)


def test_stored_words_and_lanes_have_the_same_values(oracle: Oracle):
    lanes = [*range(100, 116)]
    oracle.reported((0, word(*lanes)), (1, full(116, of=4)))
    last = full(116, of=4)
    assert oracle.read("wordsAt", 0, 3) == [word(*lanes), last, 0]
    assert oracle.read("wordsAt", 1, 1) == [last]
    assert oracle.read("wordsAt", 0, 0) == []
    stored_lanes = [oracle.lane(index) for index in range(21)]
    assert stored_lanes == [*range(100, 117), START, START, START, 0]


def test_error_for_an_unregistered_node_names_it(oracle: Oracle):
    with pytest.raises(Exception, match=OUTSIDER[2:].lower()):
        oracle.read("indexOf", OUTSIDER)


# --- the example consumer: draws by weight; a dead oracle excludes the expelled alone ---


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
def test_seed_selects_node_by_weight(draw: Draw, seed: int, drawn: str):
    assert draw.pick(GOOD, POOR, OUT, NEW, seed=seed) == drawn


def test_unselectable_node_is_never_drawn(draw: Draw):
    assert draw.pick(OUT, POOR, OUT, seed=10**30) == POOR


@pytest.mark.parametrize("candidates", [(), (OUT,), (OUT, OUT)])
def test_draw_without_selectable_candidates_reverts(draw: Draw, candidates: tuple[str, ...]):
    with pytest.raises(ContractCustomError):
        draw.pick(*candidates, seed=1)


@pytest.mark.parametrize(("seed", "drawn"), [(4_999, GOOD), (5_000, POOR), (10_000, OUT)])
def test_all_nodes_are_drawn_equally_when_the_oracle_is_stale(draw: Draw, seed: int, drawn: str):
    draw.oracle.chain.later(LIMITS["maxAgeSeconds"] + 1)
    draw.oracle.chain.mine()
    assert draw.pick(GOOD, POOR, OUT, seed=seed) == drawn


def test_expelled_node_is_not_drawn_even_if_the_oracle_is_stale(draw: Draw):
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
