"""The bindings of QoSRoots and QoSWords read and call the real contracts."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from oracle.bindings.qos_roots import (
    RootsContract,
    RootsStatus,
    encode_accuse_call,
    encode_clear_accusation_call,
    encode_execute_kick_call,
    encode_push_report_call,
)
from oracle.bindings.qos_words import (
    MAX_RUN_WORDS,
    StoredWord,
    WordsContract,
    encode_bind_seats_call,
    encode_write_words_call,
)
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.roots.round_tree import NodeProof
from oracle.errors import TransientError
from oracle.signing.typed_data import Domain, ReportStatement
from tests.contracts.oracle_signing import SIGNERS
from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.due_leaves import DUE, due_leaves
from tests.contracts.roots.root_rounds import RootRound, make_leaves
from tests.contracts.roots.roots_driver import LAG, RootsOracle, deploy_roots
from tests.contracts.roots.words_driver import HotSet, deploy_words
from tests.integration.evm.test_typed_data import REPORTS
from tests.pools import view_of
from tests.support.config_digest import compute_config_digest
from tests.support.evm.chain import Chain, encode_calldata
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.round_leaves import prove_word

__all__ = ["chain", "fresh_chain"]

pytestmark = [pytest.mark.evm, pytest.mark.slow]

SEAT = 4


@pytest.fixture(scope="module")
def fresh_roots(fresh_chain: Chain) -> RootsOracle:
    fresh_chain.mine(3)
    oracle = deploy_roots(fresh_chain)
    oracle.push_leaves(make_leaves(NODES))
    return oracle


@pytest.fixture
def roots(chain: Chain, fresh_roots: RootsOracle) -> RootsOracle:
    return replace(fresh_roots)


def contract_of(oracle: RootsOracle) -> RootsContract:
    return RootsContract(view_of(oracle.chain.url), Address(oracle.contract.address.lower()))


def status_of(oracle: RootsOracle) -> RootsStatus:
    return contract_of(oracle).fetch_status()


def as_hash(raw: bytes) -> Hash:
    return Hash("0x" + raw.hex())


def prove(source: RootRound, seat: int) -> NodeProof:
    leaf = source.leaves[seat]
    return NodeProof(leaf.node, leaf, tuple(source.proof(seat)))


# --- statements ---


def test_report_digest_matches_contract(fresh_roots: RootsOracle):
    domain = Domain(31337, Address(fresh_roots.contract.address.lower()))
    status = status_of(fresh_roots)

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(REPORTS)
    def check(report: ReportStatement):
        statement = replace(report, config=status.config, prev=status.last_root)
        # The counter of the configuration is not signed.
        calldata = encode_push_report_call(statement, 9, b"")
        (values, _) = fresh_roots.contract.decode_function_input(calldata)[1].values()
        digest = fresh_roots.read("reportDigest", tuple(values.values()))
        assert statement.compute_digest(domain) == as_hash(digest)

    check()


def test_push_calldata_equals_web3_encoding(roots: RootsOracle):
    roots.chain.mine(2)
    report = roots.report(b"\x07" * 32)
    statement = ReportStatement(
        config=as_hash(report.config),
        round=report.round,
        prev=as_hash(report.prev),
        as_of=report.as_of,
        as_of_hash=as_hash(report.as_of_hash),
        deadline=report.deadline,
        root=as_hash(report.root),
    )
    calldata = encode_calldata(roots.call(report, b"s" * 130))
    assert encode_push_report_call(statement, report.count, b"s" * 130) == calldata


# --- status ---


def test_contract_status_matches_contract(roots: RootsOracle):
    status = status_of(roots)
    assert list(roots.named("head").values()) == [
        getattr(status.head, name) for name in status.head.__slots__
    ]
    assert list(roots.named("limits").values()) == [
        getattr(status.limits, name) for name in status.limits.__slots__
    ]
    assert status.last_root == as_hash(roots.last_round.root)
    assert status.config == as_hash(roots.read("configDigest"))
    assert status.rules_hash == as_hash(roots.read("rulesHash"))
    assert status.signers == tuple(signer.address.lower() for signer in SIGNERS)
    assert [status.bucket.left, status.bucket.since] == roots.read("bucket")
    assert status.block.number == roots.chain.block
    domain = Domain(31337, Address(roots.contract.address.lower()))
    count, quorum = status.head.config_count, status.head.quorum
    digest = compute_config_digest(domain, count, status.signers, quorum, status.rules_hash)
    assert digest == status.config


def test_new_contract_has_a_zero_root(roots: RootsOracle):
    status = status_of(deploy_roots(roots.chain))
    assert (status.last_root, status.head.round) == (ZERO_HASH, 0)


def test_report_after_a_struck_round_has_a_zero_previous_root(roots: RootsOracle):
    roots.do("pauseFor", 3_600, sender=roots.pauser)
    assert not status_of(roots).can_accept_round
    roots.do("strike", 1, sender=roots.pauser)
    roots.do("resume", sender=roots.admin)
    status = status_of(roots)
    assert status.last_root == ZERO_HASH
    # A report that names the struck root is signed for nothing.
    roots.chain.mine(2)
    candidate = roots.make_round(make_leaves(NODES))
    report = roots.report(candidate.root, as_of=candidate.as_of, prev=bytes(32))
    roots.chain.later(60)
    roots.push(report)
    assert status_of(roots).last_root == as_hash(candidate.root)


def test_contract_configuration_has_roles_floors_and_immutables(roots: RootsOracle):
    configuration = contract_of(roots).fetch_configuration()
    for field, view in (("admin", "admin"), ("pauser", "pauser"), ("vetoer", "vetoer")):
        assert getattr(configuration, field) == roots.read(view).lower()
    assert (configuration.kept_rounds, configuration.lag_rounds) == (256, 2)
    assert configuration.quorum == 2
    for name in ("floors", "tightest"):
        limits = getattr(configuration, name)
        assert [getattr(limits, part) for part in limits.__slots__] == list(
            roots.named(name).values()
        )
    kick_floors = configuration.kick_floors
    assert [getattr(kick_floors, part) for part in kick_floors.__slots__] == list(
        roots.named("kickFloors").values()
    )


def test_error_for_wrong_contract_address_names_the_setting(roots: RootsOracle):
    view = view_of(roots.chain.url)
    other = Address(roots.network.address.lower())
    with pytest.raises(TransientError, match=r"not look like a QoSRoots .* check oracle\.address"):
        RootsContract(view, other).fetch_status()
    with pytest.raises(TransientError, match="there is no QoSRoots contract"):
        RootsContract(view, Address("0x" + 40 * "5")).fetch_status()


# --- kickouts ---


def test_kickout_calldata_matches_web3_encoding(roots: RootsOracle):
    roots.push_leaves(due_leaves(SEAT))
    due = prove(roots.last_round, SEAT)
    accusation = encode_accuse_call(due.leaf, due.hashes)
    assert accusation == encode_calldata(
        roots.contract.functions.accuse(*roots.last_round.proven(SEAT))
    )
    assert roots.chain.transact(to=roots.contract.address, data=accusation).names == [
        "KickAccused"
    ]
    execution = encode_execute_kick_call(due.leaf, due.hashes, roots.last_round.summary)
    assert execution == encode_calldata(roots.execution(SEAT))

    roots.push_leaves(make_leaves(NODES))
    recovered = prove(roots.last_round, SEAT)
    clearing = encode_clear_accusation_call(recovered.leaf, recovered.hashes)
    receipt = roots.chain.transact(to=roots.contract.address, data=clearing)
    assert receipt.only("KickCancelled")["node"] == roots.node(SEAT)


# --- words ---


@pytest.fixture
def words(roots: RootsOracle) -> HotSet:
    return deploy_words(roots)


def block_of(oracle: RootsOracle) -> BlockRef:
    return status_of(oracle).block


def test_hot_set_words_are_returned_with_their_rounds(roots: RootsOracle, words: HotSet):
    contract = WordsContract(view_of(roots.chain.url), Address(words.contract.address.lower()))
    assert contract.fetch_words(0, 2, block_of(roots)) == [StoredWord(0, 0)] * 2
    source = roots.last_round
    hashes = prove_word(source.tree, 0, source.summary)[1:]
    calldata = encode_write_words_call(source.round, 0, source.words(0, 2), hashes)
    roots.chain.transact(to=words.contract.address, data=calldata)
    assert contract.fetch_words(0, 2, block_of(roots)) == [
        StoredWord(lanes, source.round) for lanes in source.words(0, 2)
    ]


def test_drop_limit_counts_the_lanes_of_the_last_round(roots: RootsOracle, words: HotSet):
    contract = WordsContract(view_of(roots.chain.url), Address(words.contract.address.lower()))
    words.bring(roots.last_round, count=2)
    roots.push_leaves(make_leaves(NODES, {0: DUE, 1: {"lane": 1}}))
    words.bring(roots.last_round)
    assert contract.fetch_fall_counts(block_of(roots)) == (2, 4)


def test_nodes_are_bound_to_seats_by_proofs_of_a_lagged_round(roots: RootsOracle, words: HotSet):
    source = roots.last_round
    for _ in range(LAG):
        roots.push_leaves(make_leaves(NODES))
    calldata = encode_bind_seats_call([prove(source, seat) for seat in (3, 4)])
    receipt = roots.chain.transact(to=words.contract.address, data=calldata)
    assert receipt.names == ["NodeRegistered"] * 2
    assert words.read("indexOf", roots.node(4)) == 4
    contract = WordsContract(view_of(roots.chain.url), Address(words.contract.address.lower()))
    nodes = [Address(roots.node(seat).lower()) for seat in (3, 4, 5)]
    assert contract.fetch_seats(nodes, block_of(roots)) == [3, 4, None]


def test_reading_seats_from_a_wrong_contract_raises_a_transient_error(roots: RootsOracle):
    contract = WordsContract(view_of(roots.chain.url), Address(roots.network.address.lower()))
    with pytest.raises(TransientError):
        contract.fetch_seats([Address(roots.node(3).lower())], block_of(roots))


def test_hot_set_words_are_read_in_batches(roots: RootsOracle, words: HotSet):
    contract = WordsContract(view_of(roots.chain.url), Address(words.contract.address.lower()))
    source = roots.last_round
    words.bring(source)
    stored = contract.fetch_words(0, 2 * MAX_RUN_WORDS + 1, block_of(roots))
    assert len(stored) == 2 * MAX_RUN_WORDS + 1
    assert stored[:2] == [StoredWord(source.words(0, 1)[0], source.round), StoredWord(0, 0)]


def test_hot_set_configuration_has_immutables(roots: RootsOracle, words: HotSet):
    contract = WordsContract(view_of(roots.chain.url), Address(words.contract.address.lower()))
    configuration = contract.fetch_configuration(block_of(roots))
    assert configuration.oracle == roots.contract.address.lower()
    assert (configuration.lag_rounds, configuration.max_rounds) == (LAG, 10)
    assert (configuration.fall_share, configuration.big_fall) == (1_000, 2_500)


def test_max_word_run_length_equals_that_of_the_contract(words: HotSet):
    assert words.read("MAX_RUN") == MAX_RUN_WORDS
