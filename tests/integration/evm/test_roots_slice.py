"""From a deployed QoSRoots to a kickout and to scores without a proof, with the bindings alone.

Three signers sign each root. Another account accuses a node, executes its kickout and updates
words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.deployment import (
    DEFAULT_KICK_FLOORS,
    DEFAULT_LIMITS,
    NO_FLOORS,
    OracleSetup,
    WordsSetup,
    override_limits,
)
from oracle.bindings.expected_events import find_missing_event
from oracle.bindings.qos_roots import (
    RootsContract,
    RootsStatus,
    encode_accuse_call,
    encode_clear_accusation_call,
    encode_execute_kick_call,
    encode_push_report_call,
    encode_retry_kick_call,
)
from oracle.bindings.qos_words import (
    WordsContract,
    encode_bind_seats_call,
    encode_write_words_call,
    find_outdated_words,
    group_words_into_runs,
)
from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.roots.leaves import NodeLeaf, RoundSummary
from oracle.domain.roots.round_tree import ProvableRound, RoundTree
from oracle.rpc.fanout import PoolView
from oracle.rpc.rpc_errors import RevertError
from oracle.signing.local import KeySigner
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.txmgr.client.receipts import fetch_newest_block, fetch_receipts
from tests.contracts.roots.due_leaves import leaves_of
from tests.pools import view_of
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.evm.network import MIN_STAKE, Network, Standing
from tests.support.round_leaves import build_round_tree, get_word, prove_word

__all__ = ["chain", "fresh_chain"]

pytestmark = [pytest.mark.evm, pytest.mark.slow]

CHAIN_ID = 31337
KEYS = [KeySigner(bytes([number]) * 32) for number in (1, 2, 3)]
LIMITS = override_limits(DEFAULT_LIMITS, {"veto_delay": 600, "kick_rounds": 2, "min_interval": 10})
# The seat of the node whose kickout is due.
DUE_SEAT, HEALTHY_SEAT = 2, 3
DO_NOT_SELECT = 1


@dataclass
class Round:
    """An accepted round: its tree and its provable leaves."""

    leaves: Sequence[NodeLeaf]
    number: int
    as_of: int
    oracle: Address
    tree: RoundTree = field(init=False)
    provable: ProvableRound = field(init=False)

    def __post_init__(self) -> None:
        self.tree = build_round_tree(self.leaves)
        by_address = sorted(self.leaves, key=lambda leaf: leaf.node)
        self.provable = ProvableRound(
            by_address, CHAIN_ID, self.oracle, self.number, self.as_of, keccak
        )

    @property
    def root(self) -> Hash:
        return Hash("0x" + self.provable.root.hex())

    @property
    def summary(self) -> RoundSummary:
        return self.provable.summary

    @property
    def lane_words(self) -> list[int]:
        return [get_word(self.tree, index) for index in range(-(-len(self.leaves) // 16))]


@dataclass
class Oracle:
    """The deployed contracts, and the calls of a reporter and of an unrelated account."""

    chain: Chain
    network: Network
    address: Address
    words: Address

    @property
    def view(self) -> PoolView:
        return view_of(self.chain.url)

    @property
    def status(self) -> RootsStatus:
        return RootsContract(self.view, self.address).fetch_status()

    def push(self, leaves: Sequence[NodeLeaf]) -> Round:
        """Sign the root of these leaves with all keys, and push it when the interval is over."""
        status = self.status
        self.chain.mine(2)
        as_of = self.block(self.chain.block - 1)
        candidate = Round(leaves, status.head.round + 1, as_of.number, self.address)
        statement = ReportStatement(
            config=status.config,
            round=candidate.number,
            prev=status.last_root,
            as_of=as_of.number,
            as_of_hash=as_of.hash,
            deadline=self.chain.time + 600,
            root=candidate.root,
        )
        domain = Domain(CHAIN_ID, self.address)
        signatures = b"".join(key.sign_statement(statement, domain) for key in KEYS)
        self.chain.later(LIMITS.min_interval + 1)
        self.send(encode_push_report_call(statement, status.head.config_count, signatures))
        assert self.status.last_root == candidate.root
        return candidate

    def block(self, number: int) -> BlockRef:
        fields = self.chain.rpc("eth_getBlockByNumber", hex(number), False)
        time = int(fields["timestamp"], 16)
        return BlockRef(number, Hash(fields["hash"]), Hash(fields["parentHash"]), time)

    def send(self, calldata: str, to: Address | None = None) -> None:
        """Send a call from an unrelated account, and check its effect."""
        recipient = to or self.address
        sent = Hash(self.chain.transact(to=recipient, data=calldata).raw["transactionHash"])
        receipt = fetch_receipts(self.view, [sent])[sent]
        assert receipt.succeeded
        assert find_missing_event(receipt, recipient, calldata) is None

    def refuse(self, calldata: str) -> str:
        """Return the name of the error with which a call fails now."""
        call = {"from": self.chain.accounts[9], "to": self.address, "data": calldata}
        with pytest.raises(RevertError) as refused:
            self.view.request("eth_call", call, "latest")
        return decode_refusal(refused.value.data).name


@pytest.fixture
def oracle(chain: Chain) -> Oracle:
    network = Network.deployed(chain)
    chain.mine(3)
    setup = OracleSetup(
        admin=Address(chain.accounts[5].lower()),
        pauser=Address(chain.accounts[6].lower()),
        vetoer=Address(chain.accounts[7].lower()),
        target=Address(network.contract.address.lower()),
        signers=tuple(key.address for key in KEYS),
        quorum=3,
        rules_hash=Hash("0x" + 64 * "a"),
        limits=LIMITS,
        floors=NO_FLOORS,
        kick_floors=DEFAULT_KICK_FLOORS,
    )
    address = chain.transact(data=setup.creation_code).raw["contractAddress"]
    words_code = WordsSetup().build_creation_code(address)
    words = chain.transact(data=words_code).raw["contractAddress"]
    network.by(network.admin, network.does.setOracle(chain.web3.to_checksum_address(address)))
    for node in network.nodes[:5]:
        network.join(node)
    return Oracle(chain, network, Address(address), Address(words))


def make_leaves(oracle: Oracle, *due_seats: int) -> list[NodeLeaf]:
    return leaves_of(oracle.network.nodes, *due_seats)


def test_any_account_can_kick_out_a_due_node_with_a_proof(oracle: Oracle):
    network = oracle.network
    due_node = network.nodes[DUE_SEAT]
    leaves = make_leaves(oracle, DUE_SEAT)
    source = oracle.push(leaves)
    proof = source.provable.prove_node(leaves[DUE_SEAT].node)
    healthy = source.provable.prove_node(leaves[HEALTHY_SEAT].node)
    assert oracle.refuse(encode_accuse_call(healthy.leaf, healthy.hashes)) == "NotDue"
    oracle.send(encode_accuse_call(proof.leaf, proof.hashes))
    assert oracle.refuse(encode_accuse_call(proof.leaf, proof.hashes)) == "AlreadyAccused"
    assert oracle.refuse(encode_clear_accusation_call(proof.leaf, proof.hashes)) == "StillDue"
    execution = encode_execute_kick_call(proof.leaf, proof.hashes, source.summary)
    assert oracle.refuse(execution) == "KickNotReady"

    oracle.chain.later(LIMITS.veto_delay)
    oracle.chain.mine()
    for _ in range(LIMITS.kick_rounds):
        source = oracle.push(leaves)
    # The proof of the accusation is of an older root.
    assert oracle.refuse(execution) == "NotProven"
    proof = source.provable.prove_node(leaves[DUE_SEAT].node)
    assert oracle.status.bucket.left == 3
    oracle.send(encode_execute_kick_call(proof.leaf, proof.hashes, source.summary))

    assert oracle.status.bucket.left == 2
    assert network.standing(due_node) is Standing.KICKED_OUT
    assert network.owed(due_node) == MIN_STAKE
    assert network.standing(network.nodes[HEALTHY_SEAT]) is Standing.ACTIVE
    assert oracle.refuse(encode_retry_kick_call(proof.leaf.node)) == "KickNotReady"
    for _ in range(LIMITS.kick_rounds):
        oracle.push(leaves)
    oracle.send(encode_retry_kick_call(proof.leaf.node))


def test_leaf_of_a_recovered_node_clears_its_accusation(oracle: Oracle):
    leaves = make_leaves(oracle, DUE_SEAT)
    proof = oracle.push(leaves).provable.prove_node(leaves[DUE_SEAT].node)
    oracle.send(encode_accuse_call(proof.leaf, proof.hashes))
    recovered = oracle.push(make_leaves(oracle)).provable.prove_node(proof.leaf.node)
    oracle.send(encode_clear_accusation_call(recovered.leaf, recovered.hashes))
    assert (
        oracle.refuse(encode_clear_accusation_call(recovered.leaf, recovered.hashes)) == "NoKick"
    )


def test_report_after_a_struck_round_follows_a_zero_root(oracle: Oracle):
    leaves = make_leaves(oracle)
    oracle.push(leaves)
    struck = oracle.push(leaves)
    contract = oracle.chain.contract("roots/QoSRoots", oracle.address)
    pauser = oracle.chain.accounts[6]
    admin = oracle.chain.accounts[5]
    oracle.chain.send(contract.functions.pauseFor(60), sender=pauser)
    oracle.chain.send(contract.functions.strike(struck.number), sender=pauser)
    oracle.chain.send(contract.functions.resume(), sender=admin)
    assert oracle.status.last_root == ZERO_HASH
    successor = oracle.push(leaves)
    assert successor.number == struck.number + 1


def test_written_scores_are_readable_through_the_score_oracle_interface(oracle: Oracle):
    nodes = oracle.network.nodes
    leaves = make_leaves(oracle)
    source = oracle.push(leaves)
    contract = WordsContract(oracle.view, oracle.words)
    send_outdated_words(oracle, contract, source)
    # Seats are bound by a root that could have been struck.
    for _ in range(2):
        oracle.push(leaves)
    proofs = [source.provable.prove_node(leaf.node) for leaf in leaves]
    oracle.send(encode_bind_seats_call(proofs), oracle.words)

    reader = oracle.chain.contract("IQoSOracle", oracle.words).functions
    qos = leaves[HEALTHY_SEAT].lane - 2
    node = oracle.chain.web3.to_checksum_address(nodes[HEALTHY_SEAT])
    assert reader.indexOf(node).call() == HEALTHY_SEAT
    assert reader.weightOf(node).call() == qos + 1
    assert reader.isSelectable(node).call()
    known, selectable, read_qos, round_number, _ = reader.scoreOf(node).call()
    assert (known, selectable, read_qos, round_number) == (True, True, qos, source.number)
    assert reader.wordsAt(0, 1).call() == [get_word(source.tree, 0)]

    # Nothing has changed, so nothing is brought; a changed lane is.
    newest = oracle.push(leaves)
    assert send_outdated_words(oracle, contract, newest) == []
    newest = oracle.push(make_leaves(oracle, DUE_SEAT))
    assert send_outdated_words(oracle, contract, newest) == [(0, 1)]
    assert reader.laneAt(DUE_SEAT).call() == newest.leaves[DUE_SEAT].lane
    falls, _ = contract.fetch_fall_counts(fetch_newest_block(oracle.view))
    assert falls == 1


def send_outdated_words(
    oracle: Oracle, contract: WordsContract, source: Round
) -> list[tuple[int, int]]:
    """Send the words that differ from those of a round; return the runs."""
    block = fetch_newest_block(oracle.view)
    stored_words = contract.fetch_words(0, len(source.lane_words), block)
    runs = group_words_into_runs(
        find_outdated_words(stored_words, source.lane_words, source.number)
    )
    for first, count in runs:
        # The proof of a run begins beside the ancestor of its words.
        hashes = prove_word(source.tree, first, source.summary)[count.bit_length() - 1 :]
        lane_words = source.lane_words[first : first + count]
        oracle.send(
            encode_write_words_call(source.number, first, lane_words, hashes), oracle.words
        )
    return runs
