"""What we sign is what eth_account and the contract itself compute."""

from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak
from hypothesis import given, strategies as st
from web3 import Web3

from oracle.bindings.qos_oracle import encode_push_call
from oracle.domain.ids import Address, Hash
from oracle.quorum.signing_round import RECENT_ROUNDS
from oracle.signing.typed_data import (
    Domain,
    KickStatement,
    ReportStatement,
    RootStatement,
    compute_config_digest,
)
from tests.contracts.oracle_driver import Oracle, deployed
from tests.contracts.oracle_signing import (
    KICK_FIELDS,
    REPORT_FIELDS,
    config_digest as config_digest_elsewhere,
)
from tests.contracts.roots.roots_driver import REPORT_FIELDS as ROOT_FIELDS
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain, fresh_chain

__all__ = ["chain", "fresh_chain"]

DOMAIN = Domain(31337, Address("0x" + 40 * "a"))
HASHES = st.binary(min_size=32, max_size=32).map(lambda raw: Hash("0x" + raw.hex()))


def words(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


REPORTS = st.builds(
    ReportStatement,
    config=HASHES,
    round=words(32),
    prev=HASHES,
    as_of=words(48),
    as_of_hash=HASHES,
    deadline=words(40),
    blob=st.binary(max_size=200),
)
ROOT_REPORTS = st.builds(
    RootStatement,
    config=HASHES,
    round=words(32),
    prev=HASHES,
    as_of=words(48),
    as_of_hash=HASHES,
    deadline=words(40),
    root=HASHES,
)
ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda raw: Address("0x" + raw.hex()))
KICKS = st.builds(
    KickStatement,
    config=HASHES,
    round=words(32),
    report=HASHES,
    node=ADDRESSES,
    evidence=HASHES,
    deadline=words(40),
)


def raw(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def elsewhere(
    kind: str, fields: list[dict[str, str]], message: dict[str, object], version: str = "2"
) -> str:
    """The digest as eth_account makes it."""
    domain = {
        "name": "QoSOracle",
        "version": version,
        "chainId": DOMAIN.chain_id,
        "verifyingContract": DOMAIN.contract,
    }
    signable = encode_typed_data(domain, {kind: fields}, message)
    return "0x" + keccak(b"\x19" + signable.version + signable.header + signable.body).hex()


@given(REPORTS)
def test_report_digest_follows_eip_712(statement: ReportStatement):
    message = {
        "config": raw(statement.config),
        "round": statement.round,
        "prev": raw(statement.prev),
        "asOf": statement.as_of,
        "asOfHash": raw(statement.as_of_hash),
        "deadline": statement.deadline,
        "dataHash": keccak(statement.blob),
    }
    assert statement.compute_digest(DOMAIN) == elsewhere("Report", REPORT_FIELDS, message)


@given(ROOT_REPORTS)
def test_digest_of_root_follows_eip_712(statement: RootStatement):
    message = {
        "config": raw(statement.config),
        "round": statement.round,
        "prev": raw(statement.prev),
        "asOf": statement.as_of,
        "asOfHash": raw(statement.as_of_hash),
        "deadline": statement.deadline,
        "root": raw(statement.root),
    }
    digest = elsewhere("Report", ROOT_FIELDS, message, version="3")
    assert statement.compute_digest(DOMAIN) == digest


@given(KICKS)
def test_kickout_digest_follows_eip_712(statement: KickStatement):
    message = {
        "config": raw(statement.config),
        "report": raw(statement.report),
        "node": statement.node,
        "evidence": raw(statement.evidence),
        "deadline": statement.deadline,
    }
    assert statement.compute_digest(DOMAIN) == elsewhere("Kick", KICK_FIELDS, message)


@given(words(16), st.lists(ADDRESSES, max_size=4), words(8), HASHES)
def test_configuration_digest_follows_abi_encoding(count, signers, quorum, rules_hash):
    domain = (DOMAIN.chain_id, DOMAIN.contract)
    digest = config_digest_elsewhere(domain, count, signers, quorum, raw(rules_hash))

    assert compute_config_digest(DOMAIN, count, signers, quorum, rules_hash) == "0x" + digest.hex()


def test_contract_computes_same_digests(fresh_chain: Chain):
    oracle: Oracle = deployed(fresh_chain)
    domain = Domain(31337, Address(oracle.contract.address.lower()))
    config = Hash("0x" + oracle.read("configDigest").hex())
    rules_hash = Hash("0x" + oracle.read("rulesHash").hex())
    signers = [Address(address.lower()) for address in oracle.read("signers")]
    count, quorum = oracle.head("configCount"), oracle.head("quorum")
    assert compute_config_digest(domain, count, signers, quorum, rules_hash) == config

    blob = bytes(range(70))
    report = ReportStatement(
        config=config,
        round=7,
        prev=Hash("0x" + oracle.read("lastReport").hex()),
        as_of=5,
        as_of_hash=Hash("0x" + 64 * "5"),
        deadline=9_999_999,
        blob=blob,
    )
    contract_digest = oracle.read(
        "reportDigest", 7, 5, raw(report.as_of_hash), 9_999_999, keccak(blob)
    )
    assert report.compute_digest(domain) == "0x" + contract_digest.hex()

    who = Address("0x" + 40 * "c")
    proof, on = Hash("0x" + 64 * "e"), Hash("0x" + 64 * "d")
    kick = KickStatement(config, 3, on, who, proof, 8_888_888)
    checksummed = Web3.to_checksum_address(who)
    contract_digest = oracle.read("kickDigest", raw(on), checksummed, raw(proof), 8_888_888)
    assert kick.compute_digest(domain) == "0x" + contract_digest.hex()


def test_contract_keeps_expected_number_of_recent_rounds(fresh_chain: Chain):
    assert deployed(fresh_chain).read("RECENT_ROUNDS") == RECENT_ROUNDS


def test_push_calldata_equals_web3_encoding(fresh_chain: Chain):
    oracle = deployed(fresh_chain)
    fresh_chain.mine(3)
    contract_report = oracle.report((0, 2))
    statement = ReportStatement(
        config=Hash("0x" + contract_report.config.hex()),
        round=contract_report.round,
        prev=Hash("0x" + contract_report.prev.hex()),
        as_of=contract_report.as_of,
        as_of_hash=Hash("0x" + contract_report.as_of_hash.hex()),
        deadline=contract_report.deadline,
        blob=contract_report.data,
    )
    calldata = oracle.call(contract_report, b"s" * 65)._encode_transaction_data()
    assert encode_push_call(statement, contract_report.count, b"s" * 65) == calldata
