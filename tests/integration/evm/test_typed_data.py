"""Signed digests equal those of eth_account and eth_abi."""

from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak
from hypothesis import given, strategies as st

from oracle.domain.ids import Address, Hash
from oracle.signing.typed_data import Domain, ReportStatement
from tests.contracts.oracle_signing import config_digest
from tests.contracts.roots.roots_driver import REPORT_FIELDS
from tests.support.config_digest import compute_config_digest

DOMAIN = Domain(31337, Address("0x" + 40 * "a"))
HASHES = st.binary(min_size=32, max_size=32).map(lambda raw: Hash("0x" + raw.hex()))


def integers_of_bits(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, 2**bits - 1)


REPORTS = st.builds(
    ReportStatement,
    config=HASHES,
    round=integers_of_bits(32),
    prev=HASHES,
    as_of=integers_of_bits(48),
    as_of_hash=HASHES,
    deadline=integers_of_bits(40),
    root=HASHES,
)
ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda raw: Address("0x" + raw.hex()))


def raw(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def compute_reference_digest(message: dict[str, object]) -> str:
    """Return the digest of a report as eth_account computes it."""
    domain = {
        "name": "QoSOracle",
        "version": "3",
        "chainId": DOMAIN.chain_id,
        "verifyingContract": DOMAIN.contract,
    }
    signable = encode_typed_data(domain, {"Report": REPORT_FIELDS}, message)
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
        "root": raw(statement.root),
    }
    assert statement.compute_digest(DOMAIN) == compute_reference_digest(message)


@given(integers_of_bits(16), st.lists(ADDRESSES, max_size=4), integers_of_bits(8), HASHES)
def test_configuration_digest_follows_abi_encoding(count, signers, quorum, rules_hash):
    domain = (DOMAIN.chain_id, DOMAIN.contract)
    digest = config_digest(domain, count, signers, quorum, raw(rules_hash))

    assert compute_config_digest(DOMAIN, count, signers, quorum, rules_hash) == "0x" + digest.hex()
