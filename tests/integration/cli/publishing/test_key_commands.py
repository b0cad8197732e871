"""`keys create`, `keys show`, `selftest`: new keys, their roles,
and a check of the whole setup.
"""

import json
import stat

import pytest

from oracle.cli.main import run
from oracle.signing.keystore import unlock_keystore
from oracle.signing.local import KeySigner
from tests.support.cli.local_network import write_config
from tests.support.faulty_endpoint import run_faulty_endpoint
from tests.support.signing.remote_signer import RemoteHost, Wrong, serve_host


def run_command(capsys, code, *arguments):
    capsys.readouterr()
    assert run([*map(str, arguments)]) == code
    return capsys.readouterr()


@pytest.mark.slow
def test_new_key_file_is_private_and_is_never_overwritten(capsys, tmp_path):
    files = tmp_path / "new" / "signer.json", tmp_path / "new" / "signer.password"
    out, advice = run_command(capsys, 0, "keys", "create", *files)
    key = unlock_keystore(*files)

    assert KeySigner(key).address == out.strip()
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]
    assert "back up both files now" in advice
    assert key.hex() not in out + advice
    before = [path.read_bytes() for path in files]
    assert "already exists" in run_command(capsys, 2, "keys", "create", *files).err
    assert [path.read_bytes() for path in files] == before


def test_keys_create_dry_run_writes_nothing(capsys, tmp_path):
    files = tmp_path / "signer.json", tmp_path / "signer.password"
    answer = run_command(capsys, 0, "keys", "create", *files, "--dry-run", "--json").out
    assert json.loads(answer)["address"] is None
    assert not list(tmp_path.iterdir())


def test_keystore_and_password_in_same_file_are_rejected(capsys, tmp_path):
    assert (
        "use two different paths"
        in run_command(capsys, 2, "keys", "create", tmp_path / "k", tmp_path / "k").err
    )


def test_keys_show_lists_configured_keys_with_their_location(capsys, settings, tmp_path):
    settings["keys"]["dispatcher_env"] = "THERE_IS_NO_SUCH_VARIABLE"
    path = write_config(settings, tmp_path / "config.toml")

    captured = run_command(capsys, 2, "keys", "show", "--config", path, "--json")

    rows = json.loads(captured.out)
    assert [row["role"] for row in rows] == ["signer", "transmitter", "dispatcher"]
    assert rows[0]["where"] == f"keystore {settings['keys']['signer_keystore']}"
    assert rows[0]["address"].startswith("0x")
    assert "variable THERE_IS_NO_SUCH_VARIABLE is not set" in rows[2]["fault"]
    assert "cannot be used: dispatcher" in captured.err
    text = run_command(capsys, 2, "keys", "show", "--config", path).out
    assert any(
        line.startswith("dispatcher: ") and "THERE_IS_NO_SUCH_VARIABLE" in line
        for line in text.splitlines()
    )


def checks(capsys, code, path, *options):
    captured = run_command(capsys, code, "selftest", "--config", path, "--json", *options)
    return {row["check"]: row for row in json.loads(captured.out)}


@pytest.mark.evm
@pytest.mark.slow
def test_selftest_passes_on_valid_installation_and_sends_nothing(
    capsys, indexed_config, network, tmp_path
):
    with run_faulty_endpoint(network.url) as watched:
        text = indexed_config.read_text().replace(network.url, watched.url)
        path = tmp_path / "config.toml"
        path.write_text(text)
        check_results = checks(capsys, 0, path)
        assert "eth_sendRawTransaction" not in watched.seen
    assert all(row["passed"] for row in check_results.values())
    assert list(check_results) == [
        *("database", "endpoint 1", "contract"),
        *("signer", "transmitter", "transmitter's balance"),
        *("keys apart", "transmitter's nonces"),
    ]
    assert check_results["transmitter's balance"]["detail"].endswith(" ether")


def test_same_key_for_two_roles_is_reported(capsys, settings, tmp_path):
    keys = settings["keys"]
    for part in ("keystore", "password_file"):
        keys[f"transmitter_{part}"] = keys[f"signer_{part}"]
    path = write_config(settings, tmp_path / "config.toml")
    captured = run_command(capsys, 2, "keys", "show", "--config", path)
    assert "signer and transmitter have the same key (0x" in captured.err
    check_results = checks(capsys, 1, path, "--offline")
    assert not check_results["keys apart"]["passed"]


def test_remote_signer_address_is_reported_as_configured(capsys, settings, tmp_path):
    settings["keys"] = {
        "signer_remote_url": "http://127.0.0.1:1",
        "signer_address": "0x" + 40 * "1",
    }
    path = write_config(settings, tmp_path / "config.toml")
    assert (
        "signer: address taken from the configuration"
        in run_command(capsys, 0, "keys", "show", "--config", path).out
    )


@pytest.mark.evm
@pytest.mark.slow
def test_selftest_reports_every_fault(capsys, network, settings, tmp_path):
    # An empty database, an unreachable endpoint, and a remote signer with another key.
    settings["chain"]["endpoints"] = [network.url, "http://127.0.0.1:1/a-key-in-the-path"]
    address = json.loads(
        run_command(
            capsys,
            0,
            "keys",
            "show",
            "--json",
            "--config",
            write_config(settings, tmp_path / "config.toml"),
        ).out
    )[0]["address"]
    with serve_host(RemoteHost(wrong=Wrong(key="0x" + "77" * 32))) as host:
        keys = {
            name: key_setting
            for name, key_setting in settings["keys"].items()
            if "signer" not in name
        }
        settings["keys"] = {**keys, "signer_remote_url": host.url, "signer_address": address}
        path = write_config(settings, tmp_path / "config.toml")
        check_results = checks(capsys, 1, path)
    failed = {name for name, row in check_results.items() if not row["passed"]}
    assert failed == {"database", "endpoint 2", "signer"}
    assert "a-key-in-the-path" not in json.dumps(check_results)


FAULTS = {
    "several locations of one key": {"signer_env": "A", "signer_kms_key_id": "b"},
    "keys.signer_address: missing": {"signer_remote_url": "https://signer:9000"},
    "for development chains only": {"signer_env": "A"},
    "set both or neither": {"remote_certificate": "a.pem"},
    "give the location of the key instead": {"signer_kms_key_id": "ab" * 32},
    "looks like a private key": {"transmitter_env": "0x" + "AB" * 32},
    "must be the name of an environment variable": {"signer_env": "a-b"},
    "expected an http:// or https:// URL": {"signer_remote_url": "ftp://host"},
    "signer_remote_url: expected an http": {"signer_remote_url": "https://signer:99999"},
    "not an address; expected 0x and 40 hex digits": {"signer_address": "0x12"},
}


@pytest.mark.parametrize("message", FAULTS)
def test_invalid_key_settings_are_reported_without_showing_key(
    capsys, offline_settings, tmp_path, message
):
    offline_settings["keys"] = FAULTS[message]
    path = write_config(offline_settings, tmp_path / "config.toml")
    error = run_command(capsys, 2, "status", "--config", path).err
    assert message in error
    assert ("ab" * 32) not in error.lower()


@pytest.mark.parametrize(
    ("url", "is_told"),
    [("http://10.0.0.9:9000", True), ("http://127.0.0.1:1", False), ("https://signer", False)],
)
def test_config_check_warns_of_unencrypted_connection_to_remote_signer(
    capsys, offline_settings, tmp_path, url, is_told
):
    offline_settings["keys"] = {"signer_remote_url": url, "signer_address": "0x" + 40 * "1"}
    path = write_config(offline_settings, tmp_path / "config.toml")
    capsys.readouterr()
    run(["config", "check", "--offline", "--config", str(path)])
    is_warned = "keys.signer_remote_url: plain http to another host" in capsys.readouterr().out
    assert is_warned is is_told


TOKEN = "a-token-that-nobody-sees"  # noqa: S105  made for this test


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_config_check_shows_no_token_of_any_url(capsys, offline_settings, tmp_path, form):
    offline_settings["chain"] |= {
        "endpoints": [f"http://user:{TOKEN}@127.0.0.1:1/{TOKEN}?key={TOKEN}"],
        "websocket": f"ws://127.0.0.1:1/{TOKEN}",
    }
    offline_settings["keys"] = {"kms_endpoint": f"http://127.0.0.1:1/{TOKEN}"}
    for role in ("signer", "transmitter", "dispatcher"):
        offline_settings["keys"] |= {
            f"{role}_remote_url": f"https://127.0.0.1:1/{TOKEN}",
            f"{role}_address": "0x" + 40 * str(len(role) % 10),
        }
    offline_settings["oracle"] = {"address": "0x" + 40 * "a"}
    path = write_config(offline_settings, tmp_path / "config.toml")

    capsys.readouterr()
    run(["config", "check", "--config", str(path), *form])
    output = capsys.readouterr()

    assert "127.0.0.1" in output.out
    assert TOKEN not in output.out + output.err
