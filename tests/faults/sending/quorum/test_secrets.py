"""Secrets are shown nowhere, and a test that shows one fails (F72)."""

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from oracle.signing.keystore import create_keystore, unlock_keystore
from oracle.signing.local import KeySigner
from oracle.telemetry.metrics import REGISTRY
from tests.support.harness import QUICK, create_key_files
from tests.support.leaks import Watch

ROOT = Path(__file__).resolve().parents[4]

LEAKS = """
import logging, subprocess, sys, warnings
import pytest, structlog
from oracle.errors import InputError
from oracle.signing.keystore import unlock_keystore
from oracle.signing.local import KeySigner
from oracle.telemetry import metrics
from tests.support.harness import create_key_files

@pytest.fixture
def files(tmp_path):
    return create_key_files(tmp_path, "signer")

@pytest.fixture
def key(files):
    key = unlock_keystore(*files)
    KeySigner(key)
    return key

def test_stdout(key): print(key.hex())
def test_stderr(key): print("0x" + key.hex().upper(), file=sys.stderr)
def test_decimal(key): print(int.from_bytes(key, "big"))
def test_bytes(key): print(key)
def test_password(files): print(files.password_file.read_text())
def test_log(key): logging.getLogger("any").warning("key %s", key.hex())
def test_read(key, capsys):
    print(key.hex())
    capsys.readouterr()
def test_program(key):
    subprocess.run([sys.executable, "-c", f"print('{key.hex()}')"], capture_output=True)
def test_daemon(tmp_path):
    # Only made here: what opens it is the other process.
    made = create_key_files(tmp_path, "signer")
    script = "import sys; from pathlib import Path; "
    script += "from oracle.signing.keystore import unlock_keystore; "
    script += "print(unlock_keystore(*map(Path, sys.argv[1:])).hex())"
    with (tmp_path / "daemon.log").open("wb") as out:
        command = [sys.executable, "-c", script, *map(str, made)]
        with subprocess.Popen(command, stdout=out, stderr=out) as process: process.wait()
def test_traceback(key): assert key.hex() == 0
def test_swallowed(key):
    with pytest.raises(InputError):
        raise InputError(f"bad key {key.hex()}")
def test_sound(key): print(KeySigner(key), "a line of no interest")
def test_metrics(key): metrics.RPC_CALLS.labels(key.hex()).inc()
"""


def test_case_f72_leaking_test_fails_without_showing_secret(tmp_path: Path):
    inner = tmp_path / "test_leaking.py"
    inner.write_text(LEAKS)
    options = ("-p", "tests.support.leaks", "-p", "no:cacheprovider", "-rA", "-q")
    ran = subprocess.run(  # noqa: PLW1510  it is to fail
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(tmp_path), str(inner)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    def named(outcome: str) -> set[str]:
        lines = [
            line.split("::test_")[-1]
            for line in ran.stdout.splitlines()
            if "::test_" in line and line.startswith(outcome)
        ]
        return {line.split()[0] for line in lines}

    leaking = {part.split("(", maxsplit=1)[0] for part in LEAKS.split("def test_")[1:]}
    assert named("FAILED") | named("ERROR") == leaking - {"sound"}, ran.stdout
    assert named("PASSED") - named("ERROR") == {"sound"}, ran.stdout
    assert "shows a key" in ran.stdout


CRASH = """
import sys
from oracle.cli import main as cli
from oracle.signing.keystore import unlock_keystore
from oracle.signing.local import KeySigner
from pathlib import Path

def run(arguments):
    import resource
    print("cores", *resource.getrlimit(resource.RLIMIT_CORE))
    key = unlock_keystore(Path(sys.argv[1]), Path(sys.argv[2]))
    KeySigner(key)
    raise ValueError(f"a bug that tells {key.hex()} and 0x{key.hex().upper()}")

cli.run = run
cli.main()
"""


def test_case_f72_keys_are_redacted_and_core_dumps_disabled(tmp_path: Path):
    files = create_key_files(tmp_path, "signer")
    ran = subprocess.run(  # noqa: PLW1510  it is to fail
        [sys.executable, "-c", CRASH, *map(str, files)], cwd=ROOT, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == (1, "cores 0 0\n")
    assert "ValueError: a bug that tells [redacted] and 0x[redacted]" in ran.stderr
    assert unlock_keystore(*files).hex() not in ran.stderr.lower()


def test_case_f72_repr_metrics_and_keystore_contain_no_key(tmp_path: Path):
    files = tmp_path / "k.json", tmp_path / "k.password"
    create_keystore(*files, iterations=QUICK)
    key = unlock_keystore(*files)
    watch = Watch()
    watch.learn(key, "a key")
    signer = KeySigner(key)
    watch.record_text("repr", f"{signer!r} {signer} {vars(type(signer))}")
    watch.record_text("the metrics", generate_latest(REGISTRY).decode())
    watch.record_text("the keystore", files[0].read_text())
    assert watch.leaks() == []


def test_leak_detector_finds_key_in_every_encoding(tmp_path: Path):
    key = unlock_keystore(*create_key_files(tmp_path, "signer"))
    for form in (key.hex(), key.hex().upper(), str(int.from_bytes(key, "big")), repr(key)):
        watch = Watch()
        watch.learn(key, "a key")
        watch.record_text("output", f"before {form} after")
        (leak,) = watch.leaks()
        assert leak.startswith("output shows a key")


@pytest.mark.parametrize("made_by_hand", [bytes(32), b"\x01" * 32])
def test_constant_is_not_reported_as_leaked_secret(made_by_hand: bytes):
    watch = Watch()
    watch.learn(made_by_hand, "a key")
    watch.record_text("output", made_by_hand.hex())
    assert watch.leaks() == []
