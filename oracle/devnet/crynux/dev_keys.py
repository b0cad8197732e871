"""The keys of Anvil's accounts: who joins a VSSTask network proves to have one."""

from functools import cache

from eth_account.hdaccount import key_from_seed, seed_from_mnemonic
from eth_keys.datatypes import PrivateKey

# What every development chain makes its accounts of; known to everybody, and worth nothing.
_MNEMONIC = "test test test test test test test test test test test junk"
_PATH = "m/44'/60'/0'/0/{}"


@cache
def public_key(place: int) -> bytes:
    """Return the 64 bytes of the public key of the account at this place, from 0."""
    private = PrivateKey(key_from_seed(_seed(), _PATH.format(place)))
    return private.public_key.to_bytes()


@cache
def _seed() -> bytes:
    return seed_from_mnemonic(_MNEMONIC, "")
