"""Signers of the oracle contract, and EIP-712 signatures independent of the daemon's code."""

from collections.abc import Iterable, Sequence
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import Web3

# Sorted as in the contract: signer i has bit i.
SIGNERS: tuple[LocalAccount, ...] = tuple(
    Account.from_key(Web3.keccak(text=f"signer {number}")) for number in range(3)
)
STRANGER: LocalAccount = Account.from_key(Web3.keccak(text="stranger"))


def config_digest(
    domain: tuple[int, str], count: int, signers: Sequence[str], quorum: int, rules_hash: bytes
) -> bytes:
    kinds = ["uint256", "address", "uint16", "address[]", "uint8", "bytes32"]
    values = [*domain, count, signers, quorum, rules_hash]
    return bytes(Web3.keccak(Web3().codec.encode(kinds, values)))


def sign_typed_data(
    domain: tuple[int, str],
    kinds: dict[str, Any],
    message: dict[str, Any],
    signers: Iterable[LocalAccount],
    *,
    version: str = "3",
) -> bytes:
    """Return the EIP-712 signatures of these signers, 65 bytes each."""
    chain_id, contract = domain
    domain_fields = {
        "name": "QoSOracle",
        "version": version,
        "chainId": chain_id,
        "verifyingContract": contract,
    }
    return b"".join(
        bytes(signer.sign_typed_data(domain_fields, kinds, message).signature)
        for signer in signers
    )
