"""Key files: rejected if others can read them, and never shown."""

import json
import logging
import stat
from pathlib import Path

import pytest
from eth_account import Account
from eth_keyfile.keyfile import create_keyfile_json

from oracle.domain.ids import Address, Hash
from oracle.errors import InputError
from oracle.signing.key_locations import KeyFiles
from oracle.signing.keystore import create_keystore, unlock_keystore
from oracle.signing.local import KeySigner
from oracle.signing.signer import Fees, TransactionRequest
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.support.harness import QUICK, create_key_files

DOMAIN = Domain(31337, Address("0x" + 40 * "7"))
REPORT = ReportStatement(
    config=Hash("0x" + 64 * "b"),
    round=3,
    prev=Hash("0x" + 64 * "c"),
    as_of=7,
    as_of_hash=Hash("0x" + 64 * "d"),
    deadline=1_700_000_000,
    root=Hash("0x" + 64 * "e"),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    return create_key_files(tmp_path_factory.mktemp("keys"), "signer")


def copy_key_files(files: KeyFiles, to: Path) -> KeyFiles:
    copies = KeyFiles(to / "keystore.json", to / "password")
    for source, copy in zip(files, copies, strict=True):
        copy.write_bytes(source.read_bytes())
        copy.chmod(0o600)
    return copies


def test_new_keystore_is_encrypted_and_private(tmp_path: Path):
    keystore = tmp_path / "new" / "keystore.json"
    password = tmp_path / "new" / "password"
    address = create_keystore(keystore, password, iterations=QUICK)

    written = json.loads(keystore.read_text())
    assert (written["version"], "0x" + written["address"].lower()) == (3, address)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (keystore, password)] == [0o600, 0o600]
    assert KeySigner.open(keystore, password, address).address == address


def test_eip_2335_keystore_is_decrypted(tmp_path: Path):
    key = bytes.fromhex("42" * 32)
    files = KeyFiles(tmp_path / "keystore.json", tmp_path / "password")
    written = create_keyfile_json(key, b"a password", version=4, kdf="pbkdf2", iterations=QUICK)
    files.keystore.write_text(json.dumps(written))
    files.password_file.write_text("a password\n")
    for path in files:
        path.chmod(0o600)
    assert written["version"] == 4
    assert unlock_keystore(*files) == key
    files.password_file.write_text("another password")
    with pytest.raises(InputError, match="is wrong"):
        unlock_keystore(*files)


@pytest.mark.parametrize("content", [b"\0" * 32, b"\xff" * 32])
def test_keystore_with_invalid_key_is_rejected(tmp_path: Path, content: bytes, monkeypatch):
    monkeypatch.setattr("oracle.signing.local.unlock_keystore", lambda *_: content)
    with pytest.raises(InputError, match="not contain a valid secp256k1 key"):
        KeySigner.open(tmp_path / "keystore.json", tmp_path / "password")


def test_keystore_with_wrong_key_length_is_rejected(tmp_path: Path):
    files = KeyFiles(tmp_path / "keystore.json", tmp_path / "password")
    written = create_keyfile_json(
        b"\1" * 31, b"a password", version=4, kdf="pbkdf2", iterations=QUICK
    )
    files.keystore.write_text(json.dumps(written))
    files.password_file.write_text("a password\n")
    for path in files:
        path.chmod(0o600)
    with pytest.raises(InputError, match="does not contain a key of 32 bytes"):
        unlock_keystore(*files)


def test_failed_keystore_write_leaves_no_password_file(tmp_path: Path):
    files = KeyFiles(tmp_path / "file" / "key.json", tmp_path / "key.password")
    files.keystore.parent.write_text("where the folder should be")
    with pytest.raises(InputError, match=r"key\.json: cannot be written"):
        create_keystore(*files, iterations=QUICK)
    assert not files.password_file.exists()

    files.keystore.parent.unlink()
    assert create_keystore(*files, iterations=QUICK) == KeySigner.open(*files).address


def test_existing_keystore_is_never_overwritten(files: KeyFiles):
    with pytest.raises(InputError, match="already exists; a key is never overwritten"):
        create_keystore(*files, iterations=QUICK)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
@pytest.mark.parametrize("place", [0, 1])
def test_world_readable_key_file_is_rejected(
    files: KeyFiles, tmp_path: Path, mode: int, place: int
):
    copies = copy_key_files(files, tmp_path)
    copies[place].chmod(mode)
    with pytest.raises(
        InputError, match=r"other users have access to this file; run `chmod 600` on it"
    ):
        unlock_keystore(*copies)


def test_wrong_password_causes_a_one_line_error(files: KeyFiles, tmp_path: Path):
    copies = copy_key_files(files, tmp_path)
    copies.password_file.write_text("hunter2\n")
    with pytest.raises(InputError, match=r"keystore.json: the password in .*password is wrong"):
        unlock_keystore(*copies)


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"version": 1}', '{"version": 3}'])
def test_malformed_keystore_causes_a_one_line_error(files: KeyFiles, tmp_path: Path, text: str):
    copies = copy_key_files(files, tmp_path)
    copies.keystore.write_text(text)
    with pytest.raises(InputError, match="not a keystore"):
        unlock_keystore(*copies)


def test_missing_key_file_is_named_in_the_error(tmp_path: Path):
    with pytest.raises(InputError, match="nowhere: key file not found"):
        unlock_keystore(tmp_path / "nowhere", tmp_path / "password")


def test_key_of_another_address_is_rejected(files: KeyFiles):
    other_address = Address("0x" + 40 * "1")
    with pytest.raises(InputError, match=f"expected the key of {other_address}"):
        KeySigner.open(*files, other_address)


def test_signer_and_transmitter_with_same_key_are_rejected(files: KeyFiles):
    with pytest.raises(InputError, match="the same key"):
        ReporterKeys(KeySigner.open(*files), KeySigner.open(*files))


def test_statement_signature_is_deterministic_and_recoverable(files: KeyFiles):
    signer = KeySigner.open(*files)
    signature = signer.sign_statement(REPORT, DOMAIN)
    assert signature == signer.sign_statement(REPORT, DOMAIN)
    assert (len(signature), signature[64] in {27, 28}) == (65, True)
    recovered = Account._recover_hash(
        bytes.fromhex(REPORT.compute_digest(DOMAIN)[2:]), signature=signature
    )
    assert recovered.lower() == signer.address


def test_secrets_are_not_shown_in_repr_errors_or_logs(
    files: KeyFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    key = unlock_keystore(*files).hex()
    password = files.password_file.read_text().strip()
    signer = KeySigner.open(*files)
    signer.sign_statement(REPORT, DOMAIN)
    signer.sign_transaction(TransactionRequest(1, 0, None, "0x", 21_000, Fees(1, 1)))
    copies = copy_key_files(files, tmp_path)
    copies.keystore.write_text(files.keystore.read_text().replace('"mac": "', '"mac": "00'))
    with pytest.raises(InputError) as failure:
        unlock_keystore(*copies)
    printed = [
        repr(signer),
        str(signer),
        f"{signer!r}",
        caplog.text,
        *_list_error_texts(failure.value),
    ]
    assert not [text for text in printed if key in text or password in text]
    assert not hasattr(signer, "__dict__")


def _list_error_texts(error: BaseException | None) -> list[str]:
    """Return all texts of an exception and of its causes."""
    if error is None or error.__suppress_context__:
        return [repr(error)]
    return [
        repr(error),
        *_list_error_texts(error.__cause__),
        *_list_error_texts(error.__context__),
    ]
