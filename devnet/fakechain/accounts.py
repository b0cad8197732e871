"""Accounts whose keys we have: what they send is truly signed.

An address of which nobody has the key can send as well; its transactions are like those that some
chains send themselves: without a signature, and nobody can prove who sent them.
"""

from eth_keys.datatypes import PrivateKey

from oracle.chain.proofs.keccak import keccak

_KEYS: dict[str, PrivateKey] = {}


def account(number: int) -> str:
    """Return the address, lower case, of the account of this number; the same in every process."""
    key = PrivateKey(keccak(number.to_bytes(32, "big")))
    address = str(key.public_key.to_address())
    _KEYS[address] = key
    return address


def signed_by(address: str, content: bytes) -> tuple[int, int, int]:
    """Return parity, r and s of its signature under these bytes.

    Of an address without a key: no s, and an r made of both, so that no two are alike.
    """
    hashed = keccak(content)
    key = _KEYS.get(address.lower())
    if key is None:
        unlike = keccak(bytes.fromhex(address[2:]) + hashed)
        return 0, int.from_bytes(unlike[:31], "big") + 1, 0
    signature = key.sign_msg_hash(hashed)
    return signature.v, signature.r, signature.s
