"""Locations of signing keys; these classes hold no keys and show no secrets in `repr`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from oracle.domain.ids import Address

# Default chain ids of Hardhat, Anvil and Ganache, which run locally. Public test networks are left
# out, because their accounts are reused elsewhere, and because their ether is not free.
DEVELOPMENT_CHAINS = frozenset({1337, 31337})

# Names of the method that signs typed data. Web3Signer uses the second name.
TYPED_DATA_METHODS = ("eth_signTypedData_v4", "eth_signTypedData")


class KeyFiles(NamedTuple):
    """An encrypted keystore, and the file with its password."""

    keystore: Path
    password_file: Path


@dataclass(frozen=True, slots=True)
class KmsKey:
    """A key in AWS KMS (ECC_SECG_P256K1, SIGN_VERIFY), by its id or ARN.

    If `region` or `endpoint` is None, the AWS SDK takes it from its environment variables.
    Credentials always come from the configuration of the AWS SDK.
    """

    key_id: str
    region: str | None = None
    endpoint: str | None = field(default=None, repr=False)
    timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class RemoteKey:
    """A key behind a JSON-RPC signer (Web3Signer, Clef), with its expected address.

    Requests use a client certificate, a CA file or a bearer token from a file, if configured.
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
class EnvironmentKey:
    """A key in an environment variable as 64 hex digits, only for development chains."""

    variable: str


def find_environment_key_obstacle(role: str, chain_id: int) -> str | None:
    """Return why a role's key must not be in an environment variable on a chain.

    The result is None if the key may be there.
    """
    if chain_id in DEVELOPMENT_CHAINS:
        return None
    allowed_chains_text = ", ".join(map(str, sorted(DEVELOPMENT_CHAINS)))
    return (
        f"keys.{role}_env: keys in the environment are for development chains only "
        f"({allowed_chains_text}), not for chain {chain_id}"
    )


KeyLocation: TypeAlias = KeyFiles | KmsKey | RemoteKey | EnvironmentKey
