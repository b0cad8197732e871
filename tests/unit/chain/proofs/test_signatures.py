"""The sender of a transaction of any type is recovered from its signature."""

import msgspec
import pytest
from eth_account import Account

from devnet.fakechain.block_json import ACCESS_LIST, DYNAMIC, LEGACY, Tx
from devnet.fakechain.mining import create_account, sign_bytes
from devnet.fakechain.tree import BlockTree
from oracle.chain.proofs.transactions_root import SignedTransaction
from oracle.chain.verification.transaction_check import recover_signer
from tests.unit.chain.proofs.test_leaves import KEY, SIGNED, ZEROS, as_answered, authorization

SENDER = Account.from_key(KEY).address.lower()
# Valid on every chain, like all transactions before EIP-155.
KINDS = {**SIGNED, "unprotected": {k: v for k, v in SIGNED["legacy"].items() if k != "chainId"}}
# The order of the curve minus s is the other valid s.
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def build_signed_transaction(kind, **changed):
    """Return a signed transaction as an endpoint returns it, with the given changes."""
    request = {"to": "0x" + "11" * 20, **KINDS[kind]}
    delegated = [authorization()] if kind == "set code" else []
    if delegated:
        request["authorizationList"] = delegated
    signed_tx = Account.sign_transaction(request, KEY)
    return msgspec.convert(
        {**as_answered(request, signed_tx, delegated), **changed}, SignedTransaction
    )


def recompute_hash(tx):
    tx.hash = tx.compute_hash()
    return tx


@pytest.mark.parametrize("kind", KINDS)
def test_signer_is_recovered_for_every_transaction_type(kind):
    assert recover_signer(build_signed_transaction(kind)) == SENDER


@pytest.mark.parametrize("kind", KINDS)
def test_tampered_transaction_does_not_match_its_hash(kind):
    with pytest.raises(ValueError, match="do not match its hash"):
        recover_signer(build_signed_transaction(kind, value="0x6"))


@pytest.mark.parametrize("kind", KINDS)
def test_tampered_transaction_with_a_new_hash_has_another_signer(kind):
    assert recover_signer(recompute_hash(build_signed_transaction(kind, value="0x6"))) not in {
        SENDER,
        None,
    }


def test_signer_of_high_s_signature_is_recovered():
    """Homestead forbids a high s only in new transactions."""
    tx = build_signed_transaction("unprotected")
    tx.s, tx.v = hex(ORDER - int(tx.s, 16)), hex(55 - int(tx.v, 16))
    assert recover_signer(recompute_hash(tx)) == SENDER


@pytest.mark.parametrize(
    "changed",
    [{"type": "0x7e"}, {"r": None}, {"s": None}, {"v": None}, {"r": "0x0"}, {"s": "0x0"}],
    ids=str,
)
def test_unsigned_or_unknown_transaction_has_no_signer(changed):
    assert recover_signer(build_signed_transaction("dynamic fee", **changed)) is None


@pytest.mark.parametrize("changed", [{"r": hex(ORDER)}, {"s": hex(ORDER)}, {"v": "0x5"}], ids=str)
@pytest.mark.parametrize("kind", ["unprotected", "dynamic fee"])
def test_invalid_signature_numbers_are_rejected(kind, changed):
    with pytest.raises(ValueError, match="signature of the transaction is invalid"):
        recover_signer(recompute_hash(build_signed_transaction(kind, **changed)))


@pytest.mark.parametrize("kind", [LEGACY, ACCESS_LIST, DYNAMIC])
def test_fake_chain_signs_transactions_of_known_accounts(kind):
    somebody = create_account(1)
    block = BlockTree().mine([Tx(somebody, somebody, "0x12", 3, tx_type=kind)])
    (tx,) = msgspec.convert(block.transactions, list[SignedTransaction])
    assert recover_signer(tx) == somebody


def test_fake_chain_does_not_sign_for_unknown_accounts():
    block = BlockTree().mine([Tx(ZEROS[:42], ZEROS[:42])])
    (tx,) = msgspec.convert(block.transactions, list[SignedTransaction])
    assert (tx.compute_hash(), recover_signer(tx)) == (tx.hash, None)
    assert sign_bytes(ZEROS[:42], b"")[2] == 0
