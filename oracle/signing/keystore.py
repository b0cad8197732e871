"""Key files: encrypted keystores (Web3 V3, EIP-2335) and their password files.

Error messages never contain a key or a password. Therefore they do not include the messages of
the libraries either.
"""

import json
import os
import re
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.telemetry.safe_text import register_secret

if TYPE_CHECKING:
    from eth_account import Account


def import_eth_account() -> "type[Account]":
    """Import eth_account on first use, because it is slow, and return its `Account` class."""
    recursion_limit = sys.getrecursionlimit()
    from eth_account import Account  # noqa: PLC0415  see above

    # eth_account imports py_ecc, which raises the recursion limit so far that the C stack could
    # overflow.
    sys.setrecursionlimit(recursion_limit)
    return Account


_GROUP_AND_OTHERS_MODE = 0o077
_OWNER_FILE_MODE = 0o600
_OWNER_FOLDER_MODE = 0o700
_PASSWORD_BYTES = 32
_KEY_BYTES = 32
# Minimum length of a password that is redacted. A shorter password may occur in ordinary text.
_MIN_REDACTED_LENGTH = 8


def create_keystore(
    keystore: Path, password_file: Path, *, iterations: int | None = None
) -> Address:
    """Create a keystore with a new key and a random password, and return its address.

    `iterations` is the number of PBKDF2 iterations; None uses the library's default, and only
    throw-away chains use fewer.

    Raises:
        InputError: one of the files exists already or cannot be written.
    """
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    account = import_eth_account().create(secrets.token_hex(_KEY_BYTES))
    keystore_json = import_eth_account().encrypt(
        account.key, password, kdf="pbkdf2", iterations=iterations
    )
    # Write the password first, because the key in a keystore without its password is lost.
    _write_new_private_file(password_file, password + "\n")
    try:
        _write_new_private_file(keystore, json.dumps(keystore_json) + "\n")
    except InputError:
        # The key was not stored, so its password is useless. The next attempt would fail if the
        # file existed.
        password_file.unlink(missing_ok=True)
        raise
    return Address(account.address.lower())


def read_keystore_address(keystore: Path) -> Address | None:
    """Read the address in a keystore, or return None if it contains none.

    No password is needed, because most keystores contain their address in plain text.

    Raises:
        InputError: the file is missing, readable by others, or not a keystore.
    """
    try:
        keystore_document = json.loads(read_secret_file(keystore))
    except json.JSONDecodeError:
        raise InputError(f"{keystore}: not a keystore (invalid JSON)") from None
    address_hex = keystore_document.get("address") if isinstance(keystore_document, dict) else None
    if (
        not isinstance(address_hex, str)
        or re.fullmatch(r"(0x)?[0-9a-fA-F]{40}", address_hex) is None
    ):
        return None
    return Address("0x" + address_hex.lower().removeprefix("0x"))


def unlock_keystore(keystore: Path, password_file: Path) -> bytes:
    """Decrypt a keystore and return its private key.

    Raises:
        InputError: a file is missing, readable by others or not a keystore, or the password is
            wrong.
    """
    keystore_text = read_secret_file(keystore)
    password = read_secret_file(password_file).rstrip("\r\n")
    if len(password) >= _MIN_REDACTED_LENGTH:
        register_secret(password)
    try:
        private_key = bytes(import_eth_account().decrypt(json.loads(keystore_text), password))
    except json.JSONDecodeError:
        raise InputError(f"{keystore}: not a keystore (invalid JSON)") from None
    except (ValueError, TypeError, KeyError, NotImplementedError) as error:
        # The error is "MAC mismatch" for version 3, and "Checksum mismatch" for EIP-2335.
        if "mismatch" in str(error):
            raise InputError(f"{keystore}: the password in {password_file} is wrong") from None
        raise InputError(f"{keystore}: not a keystore of version 3 or EIP-2335") from None
    if len(private_key) != _KEY_BYTES:
        raise InputError(f"{keystore}: does not contain a key of {_KEY_BYTES} bytes")
    return private_key


def read_secret_file(path: Path) -> str:
    """Read a file that only its owner is allowed to read.

    Raises:
        InputError: the file is missing, unreadable, or readable by others.
    """
    try:
        check_private_file_mode(path)
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: key file not found") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: the file is not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def check_private_file_mode(path: Path) -> None:
    """Check that only the owner can access a file with a secret.

    Raises:
        InputError: group or others have access; the message names the fix.
        OSError: the file cannot be inspected.
    """
    if path.stat().st_mode & _GROUP_AND_OTHERS_MODE:
        raise InputError(f"{path}: other users have access to this file; run `chmod 600` on it")


def _write_new_private_file(path: Path, text: str) -> None:
    """Create a file that only its owner can read, and fsync it; delete it after a failure."""
    try:
        descriptor = _create_private_file(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _create_private_file(path: Path) -> int:
    path.parent.mkdir(mode=_OWNER_FOLDER_MODE, parents=True, exist_ok=True)
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_FILE_MODE)
    except FileExistsError:
        raise InputError(f"{path}: the file already exists; a key is never overwritten") from None
