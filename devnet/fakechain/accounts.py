"""Accounts with known keys, whose transactions are properly signed.

Addresses without a key can send transactions as well. Like the system transactions of some chains,
these have no signature, so the sender cannot be proven.
"""

from eth_keys.datatypes import PrivateKey

from oracle.chain.proofs.keccak import keccak

_KEYS: dict[str, PrivateKey] = {}


def account(number: int) -> str:
    """Return the lower-case address of a numbered account; the same in every process."""
    key = PrivateKey(keccak(number.to_bytes(32, "big")))
    address = str(key.public_key.to_address())
    _KEYS[address] = key
    return address


def signed_by(address: str, content: bytes) -> tuple[int, int, int]:
    """Return parity, r and s of an address's signature of these bytes.

    An address without a key gets s = 0 and an r derived from address and content, which is
    therefore unique.
    """
    hashed = keccak(content)
    key = _KEYS.get(address.lower())
    if key is None:
        unlike = keccak(bytes.fromhex(address[2:]) + hashed)
        return 0, int.from_bytes(unlike[:31], "big") + 1, 0
    signature = key.sign_msg_hash(hashed)
    return signature.v, signature.r, signature.s
