"""Objections: who can make one, which signatures are valid, and the content of the event."""

from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from hypothesis import given, strategies as st
from web3 import Web3

from oracle.signing.signature_checks import EcdsaSignature
from tests.contracts.oracle_signing import STRANGER
from tests.contracts.roots.objections_driver import (
    WORDS,
    ObjectionsDriver,
    SignedObjection,
    deploy_objections,
)
from tests.contracts.roots.roots_driver import ZERO
from tests.support.evm.chain import Chain, RevertedError
from tests.support.examples import examples

pytestmark = pytest.mark.evm

NODE: LocalAccount = Account.from_key(Web3.keccak(text="node"))
ORACLE = Web3.to_checksum_address("0x" + "0a" * 20)
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
ACCEPTS, ANSWERS_SHORT, REVERTS, BURNS = range(4)


@pytest.fixture
def objections(chain: Chain) -> ObjectionsDriver:
    return deploy_objections(chain, ORACLE)


@pytest.fixture
def objection() -> SignedObjection:
    return SignedObjection(NODE.address)


def get_error_name(call: Any) -> str:
    with pytest.raises(RevertedError) as caught:
        call()
    return caught.value.error


def test_objection_emits_an_event_with_its_number(objections: ObjectionsDriver) -> None:
    node = objections.chain.accounts[3]
    objections.object(node)

    second = objections.object(node, words="it was an outage", due_since=77, reason=3)

    assert second.only("Objected") == {
        "node": node,
        "dueSince": 77,
        "reason": 3,
        "seq": 1,
        "words": "it was an outage",
    }
    assert objections.next_seq(node) == 2


def test_any_account_can_submit_a_signed_objection(
    objections: ObjectionsDriver, objection: SignedObjection
) -> None:
    event = objections.bring(objection, NODE).only("Objected")

    assert event == {
        "node": NODE.address,
        "dueSince": objection.due_since,
        "reason": objection.reason,
        "seq": 0,
        "words": WORDS,
    }
    assert objections.next_seq(NODE.address) == 1


def test_objection_signed_by_another_account_is_rejected(
    objections: ObjectionsDriver, objection: SignedObjection
) -> None:
    assert get_error_name(lambda: objections.bring(objection, STRANGER)) == "NotSignedByNode"


@pytest.mark.parametrize(
    "signed_as",
    [
        {"due_since": 1},
        {"reason": 0},
        {"words": "guilty"},
        {"seq": 1},
        {"deadline": 2**39},
        {"node": STRANGER.address},
    ],
    ids=lambda signed_as: next(iter(signed_as)),
)
def test_objection_with_a_tampered_field_is_rejected(
    objections: ObjectionsDriver, objection: SignedObjection, signed_as: dict[str, Any]
) -> None:
    assert (
        get_error_name(lambda: objections.bring(objection, NODE, **signed_as)) == "NotSignedByNode"
    )


@pytest.mark.parametrize("domain", ["chain", "contract"])
def test_objection_signature_is_valid_only_for_one_chain_and_contract(
    objections: ObjectionsDriver, objection: SignedObjection, domain: str
) -> None:
    chain_id, contract = objections.chain.id, objections.contract.address
    signature = (
        objection.sign(NODE, chain_id + 1, contract)
        if domain == "chain"
        else objection.sign(NODE, chain_id, ORACLE)
    )
    assert (
        get_error_name(lambda: objections.bring_signature(objection, signature))
        == "NotSignedByNode"
    )


def test_objection_signature_cannot_be_replayed(
    objections: ObjectionsDriver, objection: SignedObjection
) -> None:
    objections.bring(objection, NODE)
    assert get_error_name(lambda: objections.bring(objection, NODE)) == "WrongSeq"


def test_direct_objection_invalidates_an_earlier_signature(
    objections: ObjectionsDriver,
) -> None:
    node = objections.chain.accounts[1]
    objections.object(node)
    objection = SignedObjection(node)
    assert get_error_name(lambda: objections.bring_signature(objection, bytes(65))) == "WrongSeq"


def test_objection_that_skips_a_number_is_rejected(
    objections: ObjectionsDriver, objection: SignedObjection
) -> None:
    assert get_error_name(lambda: objections.bring(replace(objection, seq=1), NODE)) == "WrongSeq"


@pytest.mark.parametrize(("late", "error"), [(0, None), (1, "ObjectionExpired")])
def test_objection_is_accepted_until_its_deadline(
    objections: ObjectionsDriver, objection: SignedObjection, late: int, error: str | None
) -> None:
    deadline = objections.chain.time + 100
    bound = replace(objection, deadline=deadline)
    objections.chain.at(deadline + late)
    if error is None:
        assert objections.bring(bound, NODE).names == ["Objected"]
    else:
        assert get_error_name(lambda: objections.bring(bound, NODE)) == error


@pytest.mark.parametrize("words", ["x" * 280, "ä" * 140, ""])
def test_objection_text_up_to_max_bytes_is_accepted(
    objections: ObjectionsDriver, words: str
) -> None:
    event = objections.object(objections.chain.accounts[2], words=words).only("Objected")
    assert event["words"] == words


@pytest.mark.parametrize("words", ["x" * 281, "ä" * 141])
def test_objection_text_above_max_bytes_reverts(
    objections: ObjectionsDriver, objection: SignedObjection, words: str
) -> None:
    node = objections.chain.accounts[2]
    assert get_error_name(lambda: objections.object(node, words=words)) == "WordsTooLong"
    assert (
        get_error_name(lambda: objections.bring(replace(objection, words=words), NODE))
        == "WordsTooLong"
    )


def test_objection_signature_with_high_s_is_rejected(
    objections: ObjectionsDriver, objection: SignedObjection
) -> None:
    signature = objection.sign(NODE, objections.chain.id, objections.contract.address)
    s = int.from_bytes(signature[32:64])
    high = signature[:32] + (ORDER - s).to_bytes(32) + bytes([55 - signature[64]])
    assert EcdsaSignature.from_bytes(high).to_low_s().raw_bytes == signature
    assert get_error_name(lambda: objections.bring_signature(objection, high)) == "NotSignedByNode"


@pytest.mark.parametrize("node", [ZERO, "0x" + "0" * 39 + "1"], ids=["zero", "precompile"])
@pytest.mark.parametrize("signature", [b"", bytes(64), bytes(65), bytes(66), b"\xff" * 65])
def test_malformed_objection_signature_is_rejected(
    objections: ObjectionsDriver, node: str, signature: bytes
) -> None:
    objection = SignedObjection(node)
    assert (
        get_error_name(lambda: objections.bring_signature(objection, signature))
        == "NotSignedByNode"
    )


@given(signature=st.binary(min_size=0, max_size=70))
@examples(20)
def test_random_objection_signature_is_rejected(chain: Chain, signature: bytes) -> None:
    with chain.undone():
        objections = deploy_objections(chain, ORACLE)
        objection = SignedObjection(NODE.address)
        error = get_error_name(lambda: objections.bring_signature(objection, signature))
    assert error == "NotSignedByNode"


def test_contract_node_can_sign_through_erc_1271(objections: ObjectionsDriver) -> None:
    wallet = objections.chain.deploy("testing/SmartWallet", NODE.address)
    objection = SignedObjection(wallet.address)

    assert objections.bring(objection, NODE).only("Objected")["node"] == wallet.address
    assert (
        get_error_name(lambda: objections.bring(replace(objection, seq=1), STRANGER))
        == "NotSignedByNode"
    )


@pytest.mark.parametrize("way", [ANSWERS_SHORT, REVERTS, BURNS])
def test_contract_node_that_rejects_the_signature_cannot_object(
    objections: ObjectionsDriver, way: int
) -> None:
    wallet = objections.chain.deploy("testing/SmartWallet", NODE.address)
    objections.chain.send(wallet.functions.setWay(way))
    objection = SignedObjection(wallet.address)
    assert get_error_name(lambda: objections.bring(objection, NODE)) == "NotSignedByNode"


def test_eip_7702_account_can_sign_with_its_key(objections: ObjectionsDriver) -> None:
    """An EIP-7702 account has the code of another contract, and keeps its key."""
    wallet = objections.chain.deploy("testing/SmartWallet", STRANGER.address)
    code = objections.chain.rpc("eth_getCode", wallet.address, "latest")
    objections.chain.rpc("anvil_setCode", NODE.address, code)

    event = objections.bring(SignedObjection(NODE.address), NODE).only("Objected")
    assert event["node"] == NODE.address


def test_objection_domain_is_readable_through_erc_5267(objections: ObjectionsDriver) -> None:
    """With ERC-5267, a wallet or a client needs no configuration to build the signed message."""
    domain = objections.contract.functions.eip712Domain().call(block_identifier="latest")
    address, chain_id = objections.contract.address, objections.chain.id
    assert domain == [b"\x0f", "QoSObjections", "1", chain_id, address, bytes(32), []]
    assert objections.contract.functions.ORACLE().call(block_identifier="latest") == ORACLE
