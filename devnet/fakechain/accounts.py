"""Accounts with known keys, whose transactions are properly signed.

Addresses without a key can send transactions as well. Like the system transactions of some chains,
these have no signature, so the sender cannot be proven.
"""

from eth_keys.datatypes import PrivateKey

from oracle.chain.proofs.keccak import keccak

_KEY_BY_ADDRESS: dict[str, PrivateKey] = {}


def create_account(account_number: int) -> str:
    """Return the lower-case address of a numbered account, the same in every process."""
    key = PrivateKey(keccak(account_number.to_bytes(32, "big")))
    address = str(key.public_key.to_address())
    _KEY_BY_ADDRESS[address] = key
    return address


def sign_content(address: str, content: bytes) -> tuple[int, int, int]:
    """Return parity, r and s of an address's signature of these bytes.

    For an address without a key, s is 0, and r is derived from address and content, so that it is
    unique.
    """
    content_hash = keccak(content)
    key = _KEY_BY_ADDRESS.get(address.lower())
    if key is None:
        pseudo_signature = keccak(bytes.fromhex(address[2:]) + content_hash)
        return 0, int.from_bytes(pseudo_signature[:31], "big") + 1, 0
    signature = key.sign_msg_hash(content_hash)
    return signature.v, signature.r, signature.s
