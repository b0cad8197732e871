"""What we sign is what eth_account and the contract itself compute."""

from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak
from hypothesis import given, strategies as st

from oracle.bindings.qos_oracle import push_call
from oracle.domain.ids import Address, Hash
from oracle.quorum.signing_round import RECENT_ROUNDS
from oracle.signing.typed_data import Domain, KickStatement, ReportStatement
from tests.contracts.oracle_driver import KICK_FIELDS, REPORT_FIELDS, Oracle, deployed
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain, fresh_chain

__all__ = ["chain", "fresh_chain"]

DOMAIN = Domain(31337, Address("0x" + 40 * "a"))
HASHES = st.binary(min_size=32, max_size=32).map(lambda raw: Hash("0x" + raw.hex()))


def words(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


REPORTS = st.builds(
    ReportStatement,
    round=words(32),
    rules=words(16),
    rules_hash=HASHES,
    prev=HASHES,
    as_of=words(48),
    as_of_hash=HASHES,
    deadline=words(40),
    records=st.binary(max_size=200),
)


def elsewhere(kind: str, fields: list[dict[str, str]], message: dict[str, object]) -> str:
    """The digest as eth_account makes it."""
    domain = {
        "name": "QoSOracle",
        "version": "1",
        "chainId": DOMAIN.chain_id,
        "verifyingContract": DOMAIN.contract,
    }
    signable = encode_typed_data(domain, {kind: fields}, message)
    return "0x" + keccak(b"\x19" + signable.version + signable.header + signable.body).hex()


@given(REPORTS)
def test_a_report_is_digested_as_eip_712_says(statement: ReportStatement):
    message = {
        "round": statement.round,
        "rules": statement.rules,
        "rulesHash": bytes.fromhex(statement.rules_hash[2:]),
        "prev": bytes.fromhex(statement.prev[2:]),
        "asOf": statement.as_of,
        "asOfHash": bytes.fromhex(statement.as_of_hash[2:]),
        "deadline": statement.deadline,
        "dataHash": keccak(statement.records),
    }
    assert statement.digest(DOMAIN) == elsewhere("Report", REPORT_FIELDS, message)


@given(st.builds(KickStatement, words(32), HASHES, words(256), HASHES, words(40)))
def test_a_kickout_is_digested_as_eip_712_says(statement: KickStatement):
    message = {
        "round": statement.round,
        "report": bytes.fromhex(statement.report[2:]),
        "index": statement.index,
        "evidence": bytes.fromhex(statement.evidence[2:]),
        "deadline": statement.deadline,
    }
    assert statement.digest(DOMAIN) == elsewhere("Kick", KICK_FIELDS, message)


def test_the_contract_computes_the_same_digests(fresh_chain: Chain):
    oracle: Oracle = deployed(fresh_chain)
    domain = Domain(31337, Address(oracle.contract.address.lower()))
    records = bytes(range(70))
    report = ReportStatement(
        round=7,
        rules=1,
        rules_hash=Hash("0x" + bytes(oracle.read("rulesHash")).hex()),
        prev=Hash("0x" + 64 * "0"),
        as_of=5,
        as_of_hash=Hash("0x" + 64 * "5"),
        deadline=9_999_999,
        records=records,
    )
    said = oracle.read(
        "reportDigest", 7, 1, 5, bytes.fromhex(64 * "5"), 9_999_999, keccak(records)
    )
    assert report.digest(domain) == "0x" + said.hex()

    kick = KickStatement(3, Hash("0x" + 64 * "d"), 12, Hash("0x" + 64 * "e"), 8_888_888)
    hashes = (bytes.fromhex(64 * "d"), bytes.fromhex(64 * "e"))
    said = oracle.read("kickDigest", 3, hashes[0], 12, hashes[1], 8_888_888)
    assert kick.digest(domain) == "0x" + said.hex()


def test_the_contract_keeps_as_many_rounds_as_a_kickout_is_believed_to_outlive(fresh_chain: Chain):
    assert deployed(fresh_chain).read("RECENT_ROUNDS") == RECENT_ROUNDS


def test_the_calldata_of_a_push_is_what_web3_encodes(fresh_chain: Chain):
    oracle = deployed(fresh_chain)
    oracle.by_network("joinMany", 1, 1)
    fresh_chain.mine(3)
    theirs = oracle.report((0, 2))
    ours = ReportStatement(
        round=theirs.round,
        rules=theirs.rules,
        rules_hash=Hash("0x" + theirs.rules_hash.hex()),
        prev=Hash("0x" + theirs.prev.hex()),
        as_of=theirs.as_of,
        as_of_hash=Hash("0x" + theirs.as_of_hash.hex()),
        deadline=theirs.deadline,
        records=theirs.records,
    )
    assert push_call(ours, b"s" * 65) == oracle.call(theirs, b"s" * 65)._encode_transaction_data()
