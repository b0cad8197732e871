"""The worked examples of consumers: an escrow, a draw, a dispatcher, bridges to two registries."""

from dataclasses import dataclass
from typing import Any

import pytest
from eth_utils.abi import function_abi_to_4byte_selector
from web3 import Web3
from web3.contract import Contract

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.root_rounds import OPEN_LANE, SCORED_AT, RootRound, Tuple, make_leaves
from tests.contracts.roots.roots_driver import LAG, ZERO, RootsOracle
from tests.contracts.roots.test_qos_words import get_error_name
from tests.contracts.roots.words_driver import HotSet, deploy_words
from tests.support.evm.artifacts import load_artifact
from tests.support.evm.chain import Receipt

FEE = 10_000 * 10**9
STRANGER = Address("0x" + "11" * 20)
DUE = {"lane": 302, "score_sum": 15, "kickout_due_since": SCORED_AT}


@dataclass(frozen=True)
class Consumer:
    roots: RootsOracle
    contract: Contract

    def read(self, name: str, *args: Any) -> Any:
        return getattr(self.contract.functions, name)(*args).call(block_identifier="latest")

    def send(self, name: str, *args: Any, value: int = 0, sender: str | None = None) -> Receipt:
        call = getattr(self.contract.functions, name)(*args)
        return self.roots.chain.send(call, value=value, sender=sender)

    def push(self, by_seat: dict[int, dict[str, Any]] | None = None) -> RootRound:
        self.roots.push_leaves(make_leaves(NODES, by_seat))
        return self.roots.last_round

    def wait_for_lag(self) -> None:
        for _ in range(LAG):
            self.push()

    def strike(self, first: int) -> None:
        self.roots.do("pauseFor", 3_600, sender=self.roots.pauser)
        self.roots.do("strike", first, sender=self.roots.pauser)
        self.roots.chain.later(3_700)
        self.roots.chain.mine()

    def balance(self, address: str) -> int:
        return int(self.roots.chain.rpc("eth_getBalance", address, "latest"), 16)


def deploy(roots: RootsOracle, name: str, *args: Any) -> Consumer:
    contract = roots.chain.deploy(f"roots/consumers/{name}", roots.contract.address, *args)
    return Consumer(roots, contract)


def expel(consumer: Consumer, seat: int) -> None:
    """Kick a node out by its leaf; its lane in the last round is healthy again."""
    roots = consumer.roots
    consumer.push({seat: DUE})
    roots.accuse(seat)
    roots.chain.later(601)
    roots.chain.mine()
    for _ in range(2):
        consumer.push({seat: DUE})
    roots.execute(seat)
    consumer.push()


# --- escrow ---


@pytest.fixture
def escrow(roots: RootsOracle) -> Consumer:
    return deploy(roots, "PayByScore")


def test_job_payment_depends_on_the_score_of_its_round(escrow: Consumer) -> None:
    source = escrow.push({3: {"lane": 5_002}})
    node = escrow.roots.node(3)
    payer = escrow.roots.chain.accounts[7]
    created = escrow.send("create", node, value=FEE, sender=payer).only("JobCreated")
    assert (created["id"], created["round"], created["fee"]) == (1, source.round, FEE)
    escrow.wait_for_lag()  # rounds in which the node has a QoS of 0.7
    before = escrow.balance(payer)
    other = escrow.roots.last_round
    assert get_error_name(lambda: escrow.send("settle", 1, *other.proven(3))) == "NotProven"
    assert get_error_name(lambda: escrow.send("settle", 1, *source.proven(4))) == "NotThisJob"
    settled = escrow.send("settle", 1, *source.proven(3)).only("JobSettled")
    assert (settled["paid"], settled["returned"]) == (FEE // 2, FEE // 2)
    assert escrow.balance(node) == FEE // 2
    assert escrow.balance(payer) - before == FEE // 2
    assert get_error_name(lambda: escrow.send("settle", 1, *source.proven(3))) == "NotThisJob"
    assert escrow.balance(escrow.contract.address) == 0


@pytest.mark.parametrize(("lane", "paid"), [(1, 0), (2, 0), (10_002, FEE)])
def test_fee_is_paid_in_proportion_to_qos(escrow: Consumer, lane: int, paid: int) -> None:
    source = escrow.push({3: {"lane": lane}})
    escrow.send("create", escrow.roots.node(3), value=FEE)
    escrow.wait_for_lag()
    settled = escrow.send("settle", 1, *source.proven(3)).only("JobSettled")
    assert (settled["paid"], settled["returned"]) == (paid, FEE - paid)
    assert escrow.balance(escrow.roots.node(3)) == paid


def test_job_is_settled_only_when_its_root_can_no_longer_be_struck(escrow: Consumer) -> None:
    stolen = escrow.push({3: {"lane": 1}})
    escrow.send("create", escrow.roots.node(3), value=FEE)
    for _ in range(LAG):
        assert (
            get_error_name(lambda: escrow.send("settle", 1, *stolen.proven(3))) == "RoundTooRecent"
        )
        assert get_error_name(lambda: escrow.send("settleWithoutRoot", 1)) == "RootIsKept"
        escrow.push()
    escrow.strike(stolen.round)
    assert get_error_name(lambda: escrow.send("settle", 1, *stolen.proven(3))) == "NoRoot"
    assert escrow.send("settleWithoutRoot", 1).only("JobSettled")["paid"] == FEE // 2


def test_node_without_a_leaf_is_paid_as_a_newcomer(escrow: Consumer) -> None:
    source = escrow.roots.last_round
    escrow.send("create", Web3.to_checksum_address(STRANGER), value=FEE)
    escrow.send("create", escrow.roots.node(3), value=FEE)
    absence = source.absence(STRANGER)
    assert get_error_name(lambda: escrow.send("settleNewcomer", 1, *absence)) == "RoundTooRecent"
    escrow.wait_for_lag()
    assert escrow.send("settleNewcomer", 1, *absence).only("JobSettled")["paid"] == FEE // 2
    # A node that has a leaf cannot pass for a newcomer.
    for seat in range(NODES):
        proven = source.proven(seat)
        assert (
            get_error_name(lambda proven=proven: escrow.send("settleNewcomer", 2, *proven))
            == "AbsenceNotProven"
        )


def test_recipient_that_rejects_ether_does_not_block_other_payments(escrow: Consumer) -> None:
    source = escrow.push({3: {"lane": 2_502}})
    picky = escrow.roots.chain.deploy("testing/PickyRecipient", escrow.contract.address)
    node = escrow.roots.node(3)
    escrow.roots.chain.send(picky.functions.create(node), value=FEE)
    escrow.send("create", node, value=FEE)  # another payer's money
    escrow.wait_for_lag()
    escrow.send("settle", 1, *source.proven(3))
    assert escrow.balance(node) == FEE // 4
    assert escrow.read("owed", picky.address) == FEE * 3 // 4
    assert get_error_name(lambda: escrow.roots.chain.send(picky.functions.withdraw(True))) == (
        "NothingToWithdraw"
    )
    escrow.roots.chain.send(picky.functions.withdraw(False))
    assert escrow.balance(picky.address) == FEE * 3 // 4
    assert get_error_name(lambda: escrow.roots.chain.send(picky.functions.withdraw(False))) == (
        "NothingToWithdraw"
    )
    assert escrow.balance(escrow.contract.address) == FEE


# --- draw ---


@pytest.fixture
def draw(roots: RootsOracle) -> Consumer:
    return deploy(roots, "SeatDraw")


@dataclass(frozen=True)
class RequestedDraw:
    """A draw with its seed, and the seats of its tries."""

    consumer: Consumer
    id: int
    source: RootRound
    seats: list[int]

    def complete(self, seats: list[int], summary: Tuple | None = None) -> Receipt:
        return self.consumer.send(
            "complete",
            self.id,
            summary or self.source.summary_abi,
            self.source.trees,
            [self.source.leaf(seat) for seat in seats],
            [self.source.proof(seat) for seat in seats],
        )


def request_draw(draw: Consumer, source: RootRound, expelled: int | None = None) -> RequestedDraw:
    """Request a draw, and compute its tries up to the one that takes its node."""
    chain = draw.roots.chain
    event = draw.send("request").only("DrawRequested")
    assert (event["round"], event["seedBlock"]) == (source.round, chain.block + 1)
    chain.mine(2)
    block = chain.rpc("eth_getBlockByNumber", hex(event["seedBlock"]), False)
    seed = bytes.fromhex(block["hash"][2:])
    seats: list[int] = []
    for attempt in range(200):
        hashed = keccak(seed + event["id"].to_bytes(32) + attempt.to_bytes(32))
        number = int.from_bytes(hashed)
        seats.append(number % NODES)
        coin = (number >> 128) % 10_001
        if source.leaves[seats[-1]].lane - 1 > coin and seats[-1] != expelled:
            return RequestedDraw(draw, event["id"], source, seats)
    raise AssertionError("no node was drawn")


def request_draw_of(draw: Consumer, source: RootRound, tries: int) -> RequestedDraw:
    """Request draws until one has this number of tries, which name different seats."""
    while True:
        requested = request_draw(draw, source)
        if len(requested.seats) == len(set(requested.seats)) == tries:
            return requested


def push_lagged(draw: Consumer, by_seat: dict[int, dict[str, Any]]) -> RootRound:
    source = draw.push(by_seat)
    draw.wait_for_lag()
    return source


def test_draw_selects_the_first_accepted_node(draw: Consumer) -> None:
    source = push_lagged(draw, {seat: {"lane": 2_002} for seat in range(NODES)})
    tries: set[bool] = set()
    while len(tries) < 2:  # a draw of one try, and one of several
        requested = request_draw(draw, source)
        drawn = requested.complete(requested.seats).only("NodeDrawn")
        assert drawn["node"] == draw.roots.node(requested.seats[-1])
        assert drawn["tries"] == len(requested.seats)
        assert get_error_name(lambda made=requested: made.complete(made.seats)) == "NoDraw"
        tries.add(len(requested.seats) > 1)


def test_draw_result_cannot_be_manipulated(draw: Consumer) -> None:
    source = push_lagged(draw, {})
    two = request_draw_of(draw, source, 2)
    assert get_error_name(lambda: two.complete(two.seats[:1])) == "NoNodeTaken"
    assert get_error_name(lambda: two.complete([])) == "NoNodeTaken"
    assert get_error_name(lambda: two.complete(two.seats[1:])) == "WrongSeat"
    assert get_error_name(lambda: two.complete([*two.seats, 0])) == "NodeSkipped"
    # Another number of nodes would give other seats.
    chain_id, oracle, number, as_of, count, *rest = source.summary_abi
    fewer = (chain_id, oracle, number, as_of, count - 1, *rest)
    assert get_error_name(lambda: two.complete(two.seats, fewer)) == "SummaryNotProven"
    # A leaf of another round has another weight.
    other = draw.push({two.seats[0]: {"lane": 10_002}})
    moved = RequestedDraw(draw, two.id, other, two.seats)
    assert get_error_name(lambda: moved.complete(two.seats)) == "SummaryNotProven"
    assert (
        get_error_name(lambda: moved.complete(two.seats, source.summary_abi)) == "SummaryNotProven"
    )
    two.complete(two.seats)


def test_accepted_node_cannot_be_skipped_in_draw(draw: Consumer) -> None:
    source = push_lagged(draw, {})
    while True:
        won = request_draw_of(draw, source, 1)
        # The next try would take another node.
        event_block = draw.read("draws", won.id)[1]
        block = draw.roots.chain.rpc("eth_getBlockByNumber", hex(event_block), False)
        seed = bytes.fromhex(block["hash"][2:])
        second = int.from_bytes(keccak(seed + won.id.to_bytes(32) + (1).to_bytes(32)))
        if (second >> 128) % 10_001 < OPEN_LANE - 1:
            break
    assert get_error_name(lambda: won.complete([won.seats[0], second % NODES])) == "NodeSkipped"
    won.complete(won.seats)


def test_expelled_node_is_not_drawn(draw: Consumer) -> None:
    expel(draw, 4)
    source = draw.roots.last_round
    draw.wait_for_lag()
    requested = request_draw(draw, source, expelled=4)
    while 4 not in requested.seats:
        requested = request_draw(draw, source, expelled=4)
    drawn = requested.complete(requested.seats).only("NodeDrawn")
    assert drawn["node"] != draw.roots.node(4)


def test_draw_requires_a_recent_seed_block(draw: Consumer) -> None:
    source = push_lagged(draw, {})
    event = draw.send("request").only("DrawRequested")
    requested = RequestedDraw(draw, event["id"], source, [0])
    assert get_error_name(lambda: requested.complete([0])) == "NoSeed"  # its own block
    late = request_draw(draw, source)
    draw.roots.chain.mine(256)
    assert get_error_name(lambda: late.complete(late.seats)) == "NoSeed"


def test_draw_requires_a_lagged_round(draw: Consumer) -> None:
    assert get_error_name(lambda: draw.send("request")) == "NoRoot"
    stolen = draw.push()
    draw.wait_for_lag()
    requested = request_draw(draw, stolen)
    draw.strike(stolen.round)
    assert get_error_name(lambda: draw.send("request")) == "NoRoot"
    assert get_error_name(lambda: requested.complete(requested.seats)) == "NoRoot"


# --- dispatcher ---

MIN_WEIGHT = 4_000


@pytest.fixture
def hot_set(roots: RootsOracle) -> HotSet:
    return deploy_words(roots)


@pytest.fixture
def dispatcher(roots: RootsOracle, hot_set: HotSet) -> Consumer:
    return deploy(roots, "ScoreDispatcher", hot_set.contract.address, MIN_WEIGHT)


def push_graded(dispatcher: Consumer) -> RootRound:
    """Push lanes of seats 0 to 3: excluded, a weight below the minimum, the minimum,
    and a good one.
    """
    lanes = [1, MIN_WEIGHT, MIN_WEIGHT + 1, 9_002]
    return push_lagged(dispatcher, {seat: {"lane": lane} for seat, lane in enumerate(lanes)})


def test_dispatcher_checks_the_hot_set_score_before_starting_a_task(
    dispatcher: Consumer, hot_set: HotSet
) -> None:
    source = push_graded(dispatcher)
    hot_set.bring(source, 0, 2)
    hot_set.bind(source, *range(4))
    nodes = [dispatcher.roots.node(seat) for seat in range(4)]
    for node in nodes[:2]:
        assert (
            get_error_name(lambda node=node: dispatcher.send("start", node)) == "NodeNotGoodEnough"
        )
    for node, weight in zip(nodes[2:], (MIN_WEIGHT, 9_001), strict=True):
        started = dispatcher.send("start", node).only("TaskStarted")
        assert (started["node"], started["weight"]) == (node, weight)
    assert dispatcher.read("nodeOf", 2) == nodes[3]
    stranger = Web3.to_checksum_address(STRANGER)
    assert dispatcher.send("start", stranger).only("TaskStarted")["weight"] == 5_000


def test_dispatcher_checks_a_score_proof_before_starting_a_task(dispatcher: Consumer) -> None:
    source = push_graded(dispatcher)

    def start(seat: int) -> Receipt:
        return dispatcher.send("startByProof", source.round, *source.proven(seat))

    for seat in (0, 1):
        assert get_error_name(lambda seat=seat: start(seat)) == "NodeNotGoodEnough"
    assert [start(seat).only("TaskStarted")["weight"] for seat in (2, 3)] == [MIN_WEIGHT, 9_001]
    stranger = Web3.to_checksum_address(STRANGER)
    absence = source.absence(STRANGER)
    started = dispatcher.send("startNewcomer", source.round, stranger, *absence)
    assert started.only("TaskStarted")["weight"] == 5_000
    node = dispatcher.roots.node(0)
    assert (
        get_error_name(
            lambda: dispatcher.send("startNewcomer", source.round, node, *source.proven(1))
        )
        == "AbsenceNotProven"
    )


def test_dispatcher_accepts_only_proofs_of_recent_lagged_rounds(dispatcher: Consumer) -> None:
    source = dispatcher.push()

    def start() -> Receipt:
        return dispatcher.send("startByProof", source.round, *source.proven(3))

    for _ in range(LAG):
        assert get_error_name(start) == "RoundTooRecent"
        dispatcher.push()
    for _ in range(4):
        start()
        dispatcher.push()
    assert get_error_name(start) == "RoundTooOld"


def test_dispatcher_starts_no_task_on_an_expelled_node(
    dispatcher: Consumer, hot_set: HotSet
) -> None:
    expel(dispatcher, 4)
    source = dispatcher.roots.last_round
    dispatcher.wait_for_lag()
    hot_set.bring(source, 0, 2)
    hot_set.bind(source, 4)
    node = dispatcher.roots.node(4)
    assert source.leaves[4].lane == OPEN_LANE
    assert get_error_name(lambda: dispatcher.send("start", node)) == "NodeNotGoodEnough"
    assert (
        get_error_name(lambda: dispatcher.send("startByProof", source.round, *source.proven(4)))
        == "NodeNotGoodEnough"
    )


# --- reputation ---

# The first and the last lane of each band: DoNotSelect, Low, Middle, Good, Best.
BAND_BY_LANE = {1: 1, 2: 2, 2_001: 2, 2_002: 3, 5_001: 3, 5_002: 4, 8_001: 4, 8_002: 5, 10_002: 5}


@pytest.fixture
def registry(roots: RootsOracle) -> Contract:
    return roots.chain.deploy("roots/consumers/ReputationRegistryDouble")


@pytest.fixture
def bridge(roots: RootsOracle, registry: Contract) -> Consumer:
    return deploy(roots, "ReputationBridge", registry.address, registry.address)


def test_feedback_is_given_when_the_score_band_changes(
    bridge: Consumer, registry: Contract
) -> None:
    chain = bridge.roots.chain
    chain.send(registry.functions.register(17, bridge.roots.node(3)))
    values = [0, 0, None, 20, None, 50, None, 80, None]
    given = 0
    for (lane, band), value in zip(BAND_BY_LANE.items(), values, strict=True):
        source = push_lagged(bridge, {3: {"lane": lane}})
        if value is None:
            assert (
                get_error_name(
                    lambda source=source: bridge.send("giveFeedback", 17, *source.proven(3))
                )
                == "SameBand"
            )
            continue
        receipt = bridge.send("giveFeedback", 17, *source.proven(3))
        given += 1
        assert receipt.only("FeedbackGiven")["band"] == band
        feedback = receipt.only("NewFeedback")
        assert (feedback["value"], feedback["feedbackHash"]) == (value, source.root)
        assert feedback["client"] == bridge.contract.address
    call = registry.functions.lastIndex(17, bridge.contract.address)
    assert call.call(block_identifier="latest") == given
    clients = registry.functions.getClients(17).call(block_identifier="latest")
    assert clients == [bridge.contract.address]


def test_feedback_without_a_leaf_of_a_lagged_round_reverts(
    bridge: Consumer, registry: Contract
) -> None:
    chain = bridge.roots.chain
    chain.send(registry.functions.register(17, bridge.roots.node(3)))
    source = bridge.push()
    for _ in range(LAG):
        assert get_error_name(lambda: bridge.send("giveFeedback", 17, *source.proven(3))) in {
            "NotProven",
            "NoRoot",
        }
        bridge.push()
    assert get_error_name(lambda: bridge.send("giveFeedback", 17, *source.proven(4))) == "NotOwner"
    assert get_error_name(lambda: bridge.send("giveFeedback", 18, *source.proven(3))) == "NotOwner"
    bridge.send("giveFeedback", 17, *source.proven(3))


# --- attestations ---

SCHEMA = "address node,uint32 round,uint16 lane,bytes32 root"


@pytest.fixture
def service(roots: RootsOracle) -> Contract:
    return roots.chain.deploy("roots/consumers/AttestationServiceDouble")


@pytest.fixture
def attester(roots: RootsOracle, service: Contract) -> Consumer:
    return deploy(roots, "AttestationBridge", service.address)


def register_schema(attester: Consumer, service: Contract) -> bytes:
    """Register the schema; return its uid, as EAS computes it."""
    register = service.functions.register(SCHEMA, Web3.to_checksum_address(ZERO), False)
    event = attester.roots.chain.send(register).only("Registered")
    kinds = ["string", "address", "bool"]
    uid = bytes(Web3.solidity_keccak(kinds, [SCHEMA, Web3.to_checksum_address(ZERO), False]))
    assert bytes(event["uid"]) == uid
    return uid


def test_score_is_attested_when_its_band_changes(attester: Consumer, service: Contract) -> None:
    schema = register_schema(attester, service)
    assert attester.read("SCHEMA") == SCHEMA
    assert bytes(attester.read("SCHEMA_UID")) == schema
    node = attester.roots.node(3)
    previous_band = 0
    uids = set()
    for lane, band in BAND_BY_LANE.items():
        source = push_lagged(attester, {3: {"lane": lane}})
        if band == previous_band:
            assert get_error_name(
                lambda source=source: attester.send("attest", *source.proven(3))
            ) == ("SameBand")
            continue
        receipt = attester.send("attest", *source.proven(3))
        event = receipt.only("ScoreAttested")
        assert (event["node"], event["round"], event["band"]) == (node, source.round, band)
        assert receipt.only("Attested")["schemaUID"] == schema
        call = service.functions.getAttestation(event["uid"])
        (uid, stored_schema, _, expiration, _, reference, recipient, by, revocable, data) = (
            call.call(block_identifier="latest")
        )
        assert (uid, stored_schema) == (event["uid"], schema)
        assert (expiration, reference, revocable) == (0, bytes(32), False)
        assert (recipient, by) == (node, attester.contract.address)
        decoded = Web3().codec.decode(["address", "uint32", "uint16", "bytes32"], data)
        assert decoded == (node.lower(), source.round, lane, source.root)
        previous_band = band
        uids.add(uid)
    assert len(uids) == len(set(BAND_BY_LANE.values()))


def test_attestation_requires_leaf_of_lagged_round(attester: Consumer, service: Contract) -> None:
    register_schema(attester, service)
    source = attester.push({3: {"lane": 9_002}})
    for _ in range(LAG):
        assert get_error_name(lambda: attester.send("attest", *source.proven(3))) in {
            "NotProven",
            "NoRoot",
        }
        attester.push()
    forged = source.leaf(3)[:1] + source.leaf(4)[1:]
    assert get_error_name(lambda: attester.send("attest", forged, source.proof(3))) == "NotProven"
    attester.send("attest", *source.proven(3))


def test_attestation_requires_registered_schema(attester: Consumer, service: Contract) -> None:
    source = push_lagged(attester, {})
    assert get_error_name(lambda: attester.send("attest", *source.proven(3))) == "InvalidSchema"
    register_schema(attester, service)
    assert get_error_name(lambda: register_schema(attester, service)) == "AlreadyExists"
    attester.send("attest", *source.proven(3))


def test_attestation_uses_selector_of_deployed_eas() -> None:
    """`attest` has this selector at EAS's published addresses (version 1)."""
    (function,) = [
        part
        for part in load_artifact("roots/consumers/AttestationServiceDouble")["abi"]
        if part.get("name") == "attest"
    ]
    assert function_abi_to_4byte_selector(function).hex() == "f17325e7"
