"""The keys of Anvil's accounts: who joins a VSSTask network proves to have one."""

from functools import cache

from eth_keys.datatypes import PrivateKey

from oracle.signing.keystore import import_eth_account

# What every development chain makes its accounts of; known to everybody, and worth nothing.
_MNEMONIC = "test test test test test test test test test test test junk"
_PATH = "m/44'/60'/0'/0/{}"


@cache
def public_key(place: int) -> bytes:
    """Return the 64 bytes of the public key of the account at this place, from 0."""
    # By the door that takes care of what comes along with eth_account.
    import_eth_account()
    from eth_account.hdaccount import (  # noqa: PLC0415  it takes half a second
        key_from_seed,
        seed_from_mnemonic,
    )

    key = key_from_seed(seed_from_mnemonic(_MNEMONIC, ""), _PATH.format(place))
    return PrivateKey(key).public_key.to_bytes()
