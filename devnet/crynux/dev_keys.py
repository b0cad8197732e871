"""Keys of Anvil's accounts; a node that joins a VSSTask network must prove that it owns one."""

from functools import cache

from eth_keys.datatypes import PrivateKey

from oracle.signing.keystore import import_eth_account

# The mnemonic of every development chain; publicly known and without value.
_MNEMONIC = "test test test test test test test test test test test junk"
_DERIVATION_PATH = "m/44'/60'/0'/0/{}"


@cache
def derive_public_key(account_index: int) -> bytes:
    """Return the 64-byte public key of the account at an index, counted from 0."""
    # Imports eth_account through the wrapper that handles its side effects.
    import_eth_account()
    from eth_account.hdaccount import (  # noqa: PLC0415  it takes half a second
        key_from_seed,
        seed_from_mnemonic,
    )

    key = key_from_seed(seed_from_mnemonic(_MNEMONIC, ""), _DERIVATION_PATH.format(account_index))
    return PrivateKey(key).public_key.to_bytes()
