"""Where a key may lie. None of these holds a key, and `repr` of none shows a secret."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from oracle.domain.ids import Address

# Chains that anybody may make on his own machine: Hardhat's and Anvil's, and Ganache's. A public
# test network is none of them: its accounts are used again elsewhere, and its ether is not free.
DEVELOPMENT_CHAINS = frozenset({1337, 31337})

# What a remote signer calls the signing of typed data: most; Web3Signer.
TYPED_DATA_METHODS = ("eth_signTypedData_v4", "eth_signTypedData")


class KeyFiles(NamedTuple):
    """An encrypted keystore and the file that holds its password."""

    keystore: Path
    password_file: Path

    @classmethod
    def of(cls, keystore: Path | None, password_file: Path | None) -> "KeyFiles | None":
        """Return the pair; None where one is missing."""
        if keystore is None or password_file is None:
            return None
        return cls(keystore, password_file)


@dataclass(frozen=True, slots=True)
class KmsKey:
    """A key of AWS KMS (ECC_SECG_P256K1, SIGN_VERIFY), by its id or ARN.

    `region` and `endpoint` None: as AWS's own environment says. Credentials are AWS's own matter.
    """

    key_id: str
    region: str | None = None
    endpoint: str | None = field(default=None, repr=False)
    timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class RemoteKey:
    """A key behind another host's JSON-RPC (Web3Signer, Clef): which account it must be.

    The host is asked with a client certificate, a CA file or a token of a file, where given.
    """

    url: str = field(repr=False)
    address: Address
    certificate: Path | None = None
    certificate_key: Path | None = None
    ca_file: Path | None = None
    token_file: Path | None = None
    typed_data_method: str = TYPED_DATA_METHODS[0]
    timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class VariableKey:
    """A key in an environment variable: 64 hex digits. Development chains only."""

    variable: str


KeyPlace: TypeAlias = KeyFiles | KmsKey | RemoteKey | VariableKey
