"""A key that signs: statements (signer) or transactions (transmitter). It is never shown."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eth_typing import Hash32
from typing_extensions import override

from oracle.domain.ids import Address, Hash
from oracle.errors import FatalError, InputError
from oracle.publisher.accounts import accounts
from oracle.publisher.fees import Fees
from oracle.publisher.keys import unlock


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction to be signed; `to` None deploys. Value is always 0."""

    chain_id: int
    nonce: int
    to: Address | None
    calldata: str
    gas_limit: int
    fees: Fees


@dataclass(frozen=True, slots=True)
class SignedBytes:
    """What goes to `eth_sendRawTransaction`, and the hash it is known by."""

    raw: bytes
    hash: Hash


class Signer:
    """One account. `repr` shows its address alone."""

    __slots__ = ("__account", "address")

    def __init__(self, key: bytes) -> None:
        self.__account = accounts().from_key(key)
        self.address = Address(self.__account.address.lower())

    @classmethod
    def open(
        cls, keystore: Path, password_file: Path, expected: Address | None = None
    ) -> "Signer":
        """Unlock a keystore.

        Raises:
            InputError: see `keys.unlock`; or the key's address is not the `expected` one.
        """
        signer = cls(unlock(keystore, password_file))
        if expected is not None and signer.address != expected.lower():
            raise InputError(f"{keystore}: holds the key of {signer.address}, not of {expected}")
        return signer

    @override
    def __repr__(self) -> str:
        return f"Signer({self.address})"

    def sign_digest(self, digest: Hash) -> bytes:
        """Sign a 32-byte EIP-712 digest: r, s, v (27 or 28), 65 bytes; the same every time."""
        signed = self.__account.unsafe_sign_hash(Hash32(bytes.fromhex(digest[2:])))
        return bytes(signed.signature)

    def sign_transaction(self, transaction: Transaction) -> SignedBytes:
        """Sign, and check that the bytes say who sent them.

        Raises:
            FatalError: they do not: the library is broken.
        """
        fields: dict[str, Any] = {
            "type": 2,
            "chainId": transaction.chain_id,
            "nonce": transaction.nonce,
            "value": 0,
            "data": transaction.calldata,
            "gas": transaction.gas_limit,
            "maxFeePerGas": transaction.fees.max_fee,
            "maxPriorityFeePerGas": transaction.fees.tip,
        }
        if transaction.to is not None:
            fields["to"] = bytes.fromhex(transaction.to[2:])
        signed = self.__account.sign_transaction(fields)
        raw = bytes(signed.raw_transaction)
        if accounts().recover_transaction(raw).lower() != self.address:
            raise FatalError(f"a transaction of {self.address} was signed as somebody else's")
        return SignedBytes(raw, Hash("0x" + bytes(signed.hash).hex()))
