"""The section `[keys]`, which locates the keys of the three roles but never contains a key.

The key of a role has at most one location, which is a keystore, AWS KMS, a remote signer, or (on
development chains) an environment variable.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from oracle.daemon.config.redaction import SECRET
from oracle.daemon.config.sections import ContractAddress, Section, find_incomplete_pair_faults
from oracle.domain.ids import Address
from oracle.signing.key_locations import (
    EnvironmentKey,
    KeyFiles,
    KeyLocation,
    KmsKey,
    RemoteKey,
    find_environment_key_obstacle,
)

Role = Literal["signer", "transmitter", "dispatcher"]
ROLES: tuple[Role, ...] = get_args(Role)
# The settings that locate a role's key, without the prefix of the role.
_LOCATION_SETTINGS = ("keystore", "kms_key_id", "remote_url", "env")
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
# The type of settings that are looked up by name.
_SettingValue: TypeAlias = Any
_RAW_KEY = re.compile(r"(0x)?[0-9a-fA-F]{64}")


def _reject_raw_key(value: str) -> str:
    if _RAW_KEY.fullmatch(value.strip()) is not None:
        raise ValueError(
            "the value looks like a private key; give the location of the key instead"
        )
    return value


def _check_variable_name(value: str) -> str:
    if re.fullmatch(r"[A-Z_][A-Z0-9_]*", _reject_raw_key(value)) is None:
        raise ValueError("must be the name of an environment variable (A-Z, 0-9 and _)")
    return value


def _check_http_url(value: str) -> str:
    try:
        url_parts = urlsplit(_reject_raw_key(value))
        is_web_url = (
            url_parts.scheme in {"http", "https"}
            and bool(url_parts.hostname)
            and url_parts.port != 0
        )
    except ValueError:
        is_web_url = False
    if not is_web_url:
        raise ValueError("expected an http:// or https:// URL")
    return value


_KeyId = Annotated[str, AfterValidator(_reject_raw_key), Field(min_length=1)]
_Variable = Annotated[str, AfterValidator(_check_variable_name)]
_Url = Annotated[str, AfterValidator(_check_http_url), SECRET]


class KeysSection(Section):
    """The locations of all keys.

    URLs and `kms_endpoint` may contain tokens, so only their hosts are ever shown.
    """

    # Keystore of the signer's key: Web3 version 3, or EIP-2335.
    signer_keystore: Path | None = None
    # File with the password of `keys.signer_keystore`.
    signer_password_file: Path | None = None
    # Instead of a keystore: id or ARN of a key of AWS KMS (ECC_SECG_P256K1).
    signer_kms_key_id: _KeyId | None = None
    # Instead of a keystore: JSON-RPC URL of a remote signer; needs `keys.signer_address`.
    signer_remote_url: _Url | None = None
    # Environment variable with the key, instead of a keystore; only on chains 1337 and 31337.
    signer_env: _Variable | None = None
    # The expected address of the signer's key; another key is rejected at the start.
    signer_address: ContractAddress | None = None
    # Keystore of the transmitter's key: Web3 version 3, or EIP-2335.
    transmitter_keystore: Path | None = None
    # File with the password of `keys.transmitter_keystore`.
    transmitter_password_file: Path | None = None
    # Instead of a keystore: id or ARN of a key of AWS KMS (ECC_SECG_P256K1).
    transmitter_kms_key_id: _KeyId | None = None
    # Instead of a keystore: JSON-RPC URL of a remote signer; needs `keys.transmitter_address`.
    transmitter_remote_url: _Url | None = None
    # Environment variable with the key, instead of a keystore; only on chains 1337 and 31337.
    transmitter_env: _Variable | None = None
    # The expected address of the transmitter's key; another key is rejected at the start.
    transmitter_address: ContractAddress | None = None
    # Keystore of the dispatcher's key: Web3 version 3, or EIP-2335.
    dispatcher_keystore: Path | None = None
    # File with the password of `keys.dispatcher_keystore`.
    dispatcher_password_file: Path | None = None
    # Instead of a keystore: id or ARN of a key of AWS KMS (ECC_SECG_P256K1).
    dispatcher_kms_key_id: _KeyId | None = None
    # Instead of a keystore: JSON-RPC URL of a remote signer; needs `keys.dispatcher_address`.
    dispatcher_remote_url: _Url | None = None
    # Environment variable with the key, instead of a keystore; only on chains 1337 and 31337.
    dispatcher_env: _Variable | None = None
    # The expected address of the dispatcher's key; another key is rejected at the start.
    dispatcher_address: ContractAddress | None = None
    # Region of the KMS. The default is the region in the AWS configuration.
    kms_region: str | None = None
    # URL of another KMS endpoint (a VPC endpoint).
    kms_endpoint: _Url | None = None
    # Client certificate (PEM) for remote signers (mTLS).
    remote_certificate: Path | None = None
    # Private key of `keys.remote_certificate` (PEM, mode 600).
    remote_certificate_key: Path | None = None
    # Trusted certificate authorities of remote signers (PEM); by default, the system's
    # authorities.
    remote_ca_file: Path | None = None
    # File with the bearer token for remote signers (mode 600).
    remote_token_file: Path | None = None
    # The JSON-RPC method that signs typed data; for Web3Signer, use `eth_signTypedData`.
    remote_typed_data_method: Literal["eth_signTypedData_v4", "eth_signTypedData"] = (
        "eth_signTypedData_v4"
    )
    # Timeout of a request to a remote signer or the KMS, in seconds. Two such requests, for a
    # statement and a transaction, fit into the time limit of a tick in `/livez`.
    timeout_seconds: float = Field(default=10.0, gt=0, le=20)

    def find_key_location(self, role: Role) -> KeyLocation | None:
        """Return the location of a role's key, or None if none is configured."""
        keystore = self._get_role_setting(role, "keystore")
        password_file = self._get_role_setting(role, "password_file")
        if keystore is not None and password_file is not None:
            return KeyFiles(keystore, password_file)
        if (key_id := self._get_role_setting(role, "kms_key_id")) is not None:
            return KmsKey(key_id, self.kms_region, self.kms_endpoint, self.timeout_seconds)
        url = self._get_role_setting(role, "remote_url")
        address = self.get_expected_address(role)
        if url is not None and address is not None:
            return RemoteKey(
                url,
                address,
                certificate=self.remote_certificate,
                certificate_key=self.remote_certificate_key,
                ca_file=self.remote_ca_file,
                token_file=self.remote_token_file,
                typed_data_method=self.remote_typed_data_method,
                timeout_seconds=self.timeout_seconds,
            )
        variable_name = self._get_role_setting(role, "env")
        return None if variable_name is None else EnvironmentKey(variable_name)

    def get_expected_address(self, role: Role) -> Address | None:
        """Return the configured address of a role's key, or None if there is none."""
        address = self._get_role_setting(role, "address")
        return None if address is None else Address(address)

    def has_key(self, role: Role) -> bool:
        """Return whether a location for a role's key is configured."""
        return bool(self.list_location_settings(role))

    def list_location_settings(self, role: Role) -> list[str]:
        """Return the settings that give the location of a role's key."""
        return [
            f"keys.{role}_{location}"
            for location in _LOCATION_SETTINGS
            if self._get_role_setting(role, location) is not None
        ]

    def _get_role_setting(self, role: Role, setting: str) -> _SettingValue:
        return getattr(self, f"{role}_{setting}")


def find_key_warnings(keys: KeysSection) -> list[str]:
    """Return a warning for each remote signer that is reached over plain http."""
    return [
        f"keys.{role}_remote_url: plain http to another host; use https and a certificate"
        for role in ROLES
        if isinstance(location := keys.find_key_location(role), RemoteKey)
        and urlsplit(location.url).scheme == "http"
        and urlsplit(location.url).hostname not in _LOCAL_HOSTS
    ]


def find_key_faults(keys: KeysSection, chain_id: int) -> list[str]:
    """Return a message for each conflict between settings of `[keys]`."""
    faults = [fault for role in ROLES for fault in _find_role_faults(keys, role, chain_id)]
    return faults + find_incomplete_pair_faults(
        "keys", keys, "remote_certificate", "remote_certificate_key"
    )


def _find_role_faults(keys: KeysSection, role: Role, chain_id: int) -> list[str]:
    faults = find_incomplete_pair_faults("keys", keys, f"{role}_keystore", f"{role}_password_file")
    location_settings = keys.list_location_settings(role)
    value_by_setting: dict[str, _SettingValue] = keys.model_dump()
    if len(location_settings) > 1:
        faults.append(
            f"{' and '.join(location_settings)}: several locations of one key; give only one"
        )
    if (
        value_by_setting[f"{role}_remote_url"] is not None
        and keys.get_expected_address(role) is None
    ):
        faults.append(
            f"keys.{role}_address: missing; a remote signer needs the address of its key"
        )
    environment_key_obstacle = find_environment_key_obstacle(role, chain_id)
    if value_by_setting[f"{role}_env"] is not None and environment_key_obstacle is not None:
        faults.append(environment_key_obstacle)
    return faults
