"""Who must sign a report, and what is no signature."""

from dataclasses import replace

import pytest
from eth_account.signers.local import LocalAccount
from web3 import Web3

from tests.contracts.oracle_driver import ZERO, Oracle, full
from tests.contracts.oracle_signing import SIGNERS, STRANGER
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
A, B, C = SIGNERS


def high_s(signature: bytes) -> bytes:
    """The other form of the same signature: ecrecover alone would take it."""
    s, v = int.from_bytes(signature[32:64]), signature[64]
    return signature[:32] + (ORDER - s).to_bytes(32) + bytes([55 - v])


@pytest.mark.parametrize(
    ("signers", "bitmap"), [((A, B), 0b011), ((C, A), 0b101), ((B, C), 0b110)]
)
def test_any_quorum_in_any_order_is_accepted(
    oracle: Oracle, signers: tuple[LocalAccount, ...], bitmap: int
):
    report = oracle.report((0, full(5)))
    receipt = oracle.push(report, report.signed_by(*signers))
    assert receipt.only("RoundAccepted")["signers"] == bitmap


@pytest.mark.parametrize(
    ("signers", "position"),
    [((STRANGER, A), 0), ((A, STRANGER), 1), ((A, A), 1)],
    ids=["stranger first", "stranger last", "twice"],
)
def test_signatures_by_a_stranger_or_a_duplicate_signer_are_rejected(
    oracle: Oracle, signers: tuple[LocalAccount, ...], position: int
):
    report = oracle.report((0, full(5)))
    with pytest.raises(RevertedError, match=rf"BadSignature\({position}\)"):
        oracle.push(report, report.signed_by(*signers))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_signature_count_must_equal_quorum(oracle: Oracle, count: int):
    report = oracle.report((0, full(5)))
    with pytest.raises(RevertedError, match=rf"BadSignatureLength\(130, {65 * count}\)"):
        oracle.push(report, report.signed_by(*SIGNERS[:count]))


@pytest.mark.parametrize("change", [-1, 1])
def test_signature_length_must_be_exact(oracle: Oracle, change: int):
    report = oracle.report((0, full(5)))
    signatures = (report.signed_by(A, B) + b"\0")[: 130 + change]
    with pytest.raises(RevertedError, match=rf"BadSignatureLength\(130, {130 + change}\)"):
        oracle.push(report, signatures)


def test_high_s_signature_is_rejected(oracle: Oracle):
    report = oracle.report((0, full(5)))
    twisted = report.signed_by(A) + high_s(report.signed_by(B))
    with pytest.raises(RevertedError, match=r"BadSignature\(1\)"):
        oracle.push(report, twisted)


def test_high_s_copy_of_a_signature_does_not_count_as_second_signer(oracle: Oracle):
    report = oracle.report((0, full(5)))
    twice = report.signed_by(A) + high_s(report.signed_by(A))
    with pytest.raises(RevertedError, match=r"BadSignature\(1\)"):
        oracle.push(report, twice)


@pytest.mark.parametrize("v", [0, 1, 26, 29, 255])
def test_recovery_byte_must_be_27_or_28(oracle: Oracle, v: int):
    report = oracle.report((0, full(5)))
    with pytest.raises(RevertedError, match=r"BadSignature\(1\)"):
        oracle.push(report, report.signed_by(A, B)[:-1] + bytes([v]))


def test_zero_signature_is_rejected(oracle: Oracle):
    report = oracle.report((0, full(5)))
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(report, bytes(130))


def test_report_changed_after_signing_is_rejected(oracle: Oracle):
    signatures = oracle.report((0, full(5))).signed_by(A, B)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(oracle.report((0, full(6))), signatures)


@pytest.mark.slow
def test_deadline_changed_after_signing_is_rejected(oracle: Oracle):
    report = oracle.report((0, full(5)))
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(replace(report, deadline=report.deadline + 1), report.signed_by(A, B))
    oracle.push(report)
    assert oracle.round == 2


def test_kick_signature_is_rejected_for_report(oracle: Oracle):
    oracle.reported((0, full(2)))
    kick = oracle.signed_kick(0).arguments[-1]
    oracle.chain.mine(2)
    oracle.chain.later(10)
    with pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(oracle.report((0, full(2))), kick)


def test_signatures_of_replaced_signers_are_rejected(oracle: Oracle):
    oracle.do("setSigners", [STRANGER.address, C.address], 2, sender=oracle.admin)
    report = oracle.report((0, full(5)))
    with oracle.chain.undone(), pytest.raises(RevertedError, match=r"BadSignature\(0\)"):
        oracle.push(report, report.signed_by(A, B))

    receipt = oracle.push(report, report.signed_by(C, STRANGER))
    assert receipt.only("RoundAccepted")["signers"] == 0b11


def test_new_signers_and_quorum_can_be_read(oracle: Oracle):
    receipt = oracle.do("setSigners", [C.address], 1, sender=oracle.admin)
    assert receipt.only("SignersSet") == {"signers": [C.address], "quorum": 1}
    assert (oracle.read("signers"), oracle.head("quorum")) == ([C.address], 1)


def numbered(count: int) -> list[str]:
    return [Web3.to_checksum_address(f"0x{number + 1:040x}") for number in range(count)]


@pytest.mark.parametrize(
    ("signers", "quorum"),
    [
        ([], 0),
        ([A.address], 0),
        ([A.address], 2),
        ([A.address, B.address], 1),
        ([A.address, B.address, C.address], 1),
        (numbered(4), 2),
        ([A.address, A.address], 2),
        ([A.address, ZERO], 2),
        (numbered(256), 129),
    ],
    ids=["none", "0/1", "2/1", "1/2", "1/3", "2/4", "twice", "zero", "256"],
)
def test_invalid_signers_or_quorum_are_rejected(oracle: Oracle, signers: list[str], quorum: int):
    with pytest.raises(RevertedError, match="BadSigners"):
        oracle.do("setSigners", signers, quorum, sender=oracle.admin)
    assert oracle.head("quorum") == 2


@pytest.mark.parametrize(("count", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (255, 128)])
def test_quorum_of_the_smallest_majority_is_accepted(oracle: Oracle, count: int, quorum: int):
    oracle.do("setSigners", numbered(count), quorum, sender=oracle.admin)
    assert oracle.head("quorum") == quorum
