"""The signatures that a report needs, and their validity after a change of signers or rules."""

from dataclasses import replace

import pytest
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from web3 import Web3

from tests.contracts.oracle_signing import SIGNERS, STRANGER, config_digest
from tests.contracts.roots.roots_driver import (
    LIMITS,
    REPORT_FIELDS,
    RULES_HASH,
    ZERO,
    RootReport,
    RootsOracle,
    deploy_roots,
)
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
A, B, C = SIGNERS
THREE: list[str] = [signer.address for signer in SIGNERS]
ROOT = bytes.fromhex("51" * 32)


def next_report(oracle: RootsOracle) -> RootReport:
    """Return a report that can be pushed in the next block."""
    oracle.chain.later(LIMITS["minInterval"])
    oracle.chain.mine(2)
    return oracle.report(ROOT)


def high_s(signature: bytes) -> bytes:
    """Return the other valid form of the signature, which ecrecover alone would accept."""
    s = int.from_bytes(signature[32:64])
    v = signature[64]
    return signature[:32] + (ORDER - s).to_bytes(32) + bytes([55 - v])


def numbered_addresses(count: int) -> list[str]:
    return [Web3.to_checksum_address(f"0x{number + 1:040x}") for number in range(count)]


# --- signatures ---


@pytest.mark.parametrize(
    ("signers", "bitmap"), [((A, B), 0b011), ((C, A), 0b101), ((B, C), 0b110)]
)
def test_any_quorum_of_signers_in_any_order_is_accepted(
    roots: RootsOracle, signers: tuple[LocalAccount, ...], bitmap: int
):
    report = next_report(roots)
    receipt = roots.push(report, report.signed_by(*signers))
    assert receipt.only("RoundAccepted")["signers"] == bitmap


@pytest.mark.parametrize(
    ("signers", "position"),
    [((STRANGER, A), 0), ((A, STRANGER), 1), ((A, A), 1)],
    ids=["stranger first", "stranger last", "twice"],
)
def test_unknown_or_duplicate_signer_is_rejected(
    roots: RootsOracle, signers: tuple[LocalAccount, ...], position: int
):
    report = next_report(roots)
    with pytest.raises(RevertedError, match=rf"BadSignature\({position}\)"):
        roots.push(report, report.signed_by(*signers))


@pytest.mark.parametrize("length", [0, 65, 129, 131, 195])
def test_signature_count_must_equal_quorum(roots: RootsOracle, length: int):
    report = next_report(roots)
    with pytest.raises(RevertedError, match=rf"BadSignatureLength\(130, {length}\)"):
        roots.push(report, report.signed_by(*SIGNERS)[:length])


def test_signature_with_high_s_is_rejected(roots: RootsOracle):
    report = next_report(roots)
    first = report.signed_by(A)
    second = report.signed_by(B)
    for signatures in (first + high_s(second), first + high_s(first)):
        with pytest.raises(RevertedError, match=r"BadSignature\(1\)"):
            roots.push(report, signatures)


@pytest.mark.parametrize("v", [0, 1, 26, 29, 255])
def test_recovery_byte_must_be_27_or_28(roots: RootsOracle, v: int):
    report = next_report(roots)
    with pytest.raises(RevertedError, match=r"BadSignature\(1\)"):
        roots.push(report, report.signed_by(A, B)[:-1] + bytes([v]))


def test_zero_signature_is_rejected(roots: RootsOracle):
    report = next_report(roots)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        roots.push(report, bytes(130))


def test_case_f60_signature_for_another_contract_is_rejected(roots: RootsOracle):
    chain_id, contract = roots.domain
    report = next_report(roots)
    for domain in ((chain_id + 1, contract), (chain_id, roots.network.address)):
        with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
            roots.push(report, replace(report, domain=domain).signed_by(A, B))
    roots.push(report)


def test_domain_is_readable_by_erc_5267(roots: RootsOracle):
    chain_id, contract = roots.domain
    expected = [b"\x0f", "QoSOracle", "3", chain_id, contract, bytes(32), []]
    assert list(roots.read("eip712Domain")) == expected


def test_report_signed_with_the_erc_5267_domain_is_accepted(roots: RootsOracle):
    """A signer that has only the address reads the domain from the contract."""
    fields, *values = roots.read("eip712Domain")
    names = ["name", "version", "chainId", "verifyingContract", "salt"]
    domain = {
        name: value
        for bit, (name, value) in enumerate(zip(names, values, strict=False))
        if fields[0] >> bit & 1
    }
    report = next_report(roots)
    message = {
        "config": report.config,
        "round": report.round,
        "prev": report.prev,
        "asOf": report.as_of,
        "asOfHash": report.as_of_hash,
        "deadline": report.deadline,
        "root": report.root,
    }
    signable = encode_typed_data(domain, {"Report": REPORT_FIELDS}, message)
    signatures = b"".join(signer.sign_message(signable).signature for signer in (A, B))
    assert roots.push(report, signatures).only("RoundAccepted")["signers"] == 0b011


def test_report_digest_matches_signed_digest(roots: RootsOracle):
    report = next_report(roots)
    digest = bytes(roots.read("reportDigest", report.abi))
    recovered = roots.chain.web3.eth.account._recover_hash(digest, signature=report.signed_by(A))
    assert recovered == A.address


# --- configurations ---


def test_configuration_event_contains_its_digest(roots: RootsOracle):
    rotations: list[tuple[list[str], int]] = [([STRANGER.address], 1), (THREE, 2)]
    for count, (signers, quorum) in enumerate(rotations, 2):
        receipt = roots.do("setSigners", signers, quorum, sender=roots.admin)
        assert receipt.names == ["SignersSet", "ConfigSet"]
        config = config_digest(roots.domain, count, signers, quorum, RULES_HASH)
        assert receipt.only("ConfigSet") == {"count": count, "config": config}
        assert bytes(roots.read("configDigest")) == config
        assert (roots.read("signers"), roots.head("quorum")) == (signers, quorum)


def test_new_rules_create_new_configuration(roots: RootsOracle):
    rules = b"\x02" * 32
    receipt = roots.do("setRules", rules, sender=roots.admin)
    assert receipt.names == ["RulesSet", "ConfigSet"]
    assert bytes(roots.read("rulesHash")) == rules
    config = config_digest(roots.domain, 2, THREE, 2, rules)
    assert bytes(roots.read("configDigest")) == config
    with pytest.raises(RevertedError, match="BadRules"):
        roots.do("setRules", bytes(32), sender=roots.admin)


def test_old_signatures_stay_invalid_after_signers_are_restored(roots: RootsOracle):
    report = next_report(roots)
    signatures = report.signed_by(A, B)
    roots.do("setSigners", [STRANGER.address], 1, sender=roots.admin)
    roots.do("setSigners", THREE, 2, sender=roots.admin)
    with pytest.raises(RevertedError, match=r"WrongConfig\(3, 1\)"):
        roots.push(report, signatures)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        roots.push(replace(report, count=3), signatures)
    roots.push(roots.report(ROOT))


@pytest.mark.parametrize(
    ("signers", "quorum"),
    [
        ([], 0),
        ([A.address], 0),
        ([A.address], 2),
        ([A.address, B.address], 1),
        ([A.address, B.address, C.address], 1),
        (numbered_addresses(4), 2),
        ([A.address, A.address], 2),
        ([A.address, ZERO], 2),
        (numbered_addresses(256), 129),
    ],
    ids=["none", "0/1", "2/1", "1/2", "1/3", "2/4", "twice", "zero", "256"],
)
def test_invalid_signers_or_quorum_are_rejected(
    roots: RootsOracle, signers: list[str], quorum: int
):
    with pytest.raises(RevertedError, match="BadSigners"):
        roots.do("setSigners", signers, quorum, sender=roots.admin)


@pytest.mark.parametrize(("count", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (255, 128)])
def test_quorum_of_the_smallest_majority_is_accepted(roots: RootsOracle, count: int, quorum: int):
    roots.do("setSigners", numbered_addresses(count), quorum, sender=roots.admin)
    assert roots.head("quorum") == quorum


def test_dropped_signer_cannot_sign_and_others_keep_order(roots: RootsOracle):
    roots.do("dropSigner", B.address, sender=roots.pauser)
    remaining = [A.address, C.address]
    assert roots.read("signers") == remaining
    config = config_digest(roots.domain, 2, remaining, 2, RULES_HASH)
    assert bytes(roots.read("configDigest")) == config
    report = next_report(roots)
    with pytest.raises(RevertedError, match=r"BadSignature\(1\)"):
        roots.push(report, report.signed_by(A, B))
    receipt = roots.push(report, report.signed_by(C, A))
    assert receipt.only("RoundAccepted")["signers"] == 0b11


def test_pauser_cannot_drop_signers_below_quorum(roots: RootsOracle):
    for who in (STRANGER.address, ZERO):
        with pytest.raises(RevertedError, match="BadSigners"):
            roots.do("dropSigner", who, sender=roots.pauser)
    roots.do("dropSigner", A.address, sender=roots.pauser)
    with pytest.raises(RevertedError, match="BadSigners"):
        roots.do("dropSigner", B.address, sender=roots.pauser)


def test_three_of_five_signers_are_accepted(chain: Chain):
    oracle = deploy_roots(chain, signers=[*THREE, *numbered_addresses(2)], quorum=3)
    oracle.signers = SIGNERS
    oracle.push(next_report(oracle))
    assert oracle.round == 1
