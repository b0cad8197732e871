"""Records every key, password and token that tests create, and fails a test that shows one (F72).

The following texts are checked: a test's output, including the output of programs that it started
and read; its log records, traceback and warnings; the message of every error of ours, raised or
not; the logs of daemons; and, at the end, the metrics.
"""

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.capture import CaptureFixture
from prometheus_client import generate_latest

from oracle.errors import OracleError
from oracle.signing import keystore
from oracle.signing.local import KeySigner
from oracle.telemetry.metrics import REGISTRY

# Shorter values occur by chance in any text.
_SHORTEST = 12
# A key with few different bytes was written by hand, and looks like other such values.
_FEWEST_BYTES = 8
# The passwords that tests wrote into URLs.
FIXED = (
    "token-in-the-path",
    "a-key-in-the-path",
    "a-token-that-nobody-sees",
    "a-password-that-nobody-sees",
)


class Logs:
    """The log files of programs that tests run, each read up to its current end."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}
        self._writers: dict[Path, subprocess.Popen[Any]] = {}

    def follow(self, writer: "subprocess.Popen[Any]", *streams: object) -> None:
        """Follow the streams that a program writes to, if they are files with a name."""
        for stream in streams:
            name = getattr(stream, "name", None)
            if not isinstance(name, str) or getattr(stream, "mode", "r")[0] not in "wax":
                continue
            # A device may have no end.
            if (path := Path(name)).is_file():
                self._writers[path] = writer
                self._read[path] = 0

    def news(self) -> str:
        """Return what was written since the last call; files of ended programs are dropped."""
        chunks = []
        for path, writer in list(self._writers.items()):
            is_over = not path.exists() or writer.returncode is not None
            if path.exists():
                with path.open("rb") as log:
                    log.seek(self._read[path])
                    chunks.append(log.read())
                self._read[path] += len(chunks[-1])
            if is_over:
                del self._writers[path], self._read[path]
        return b"\n".join(chunks).decode(errors="replace")


class Watch:
    """The known secrets with their kinds, and the texts shown since the last test."""

    def __init__(self) -> None:
        self._forms: dict[str, str] = {}
        self._shown_texts: list[tuple[str, str]] = []
        for value in FIXED:
            self.learn(value, "a token")

    def learn(self, value: str | bytes, what: str) -> None:
        """Add a secret, which must not be shown in any form."""
        if isinstance(value, bytes):
            if len(set(value)) >= _FEWEST_BYTES:
                forms = (value.hex(), str(int.from_bytes(value, "big")), repr(value)[2:-1])
                self._forms.update(dict.fromkeys(map(str.lower, forms), what))
                self._forms[base64.b64encode(value).decode().lower()] = what
        elif len(value) >= _SHORTEST:
            self._forms[value.lower()] = what

    def record_text(self, where: str, text: object) -> None:
        """Record a text that was shown; it is checked when the test ends."""
        if text:
            self._shown_texts.append((where, str(text)))

    def leaks(self, *more: tuple[str, str]) -> list[str]:
        """Return the leaks since the last call, without the secrets themselves."""
        outputs = [*self._shown_texts, *more]
        self._shown_texts = []
        return sorted({leak for where, text in outputs for leak in self._in(where, text.lower())})

    def _in(self, where: str, text: str) -> Iterator[str]:
        for form, what in self._forms.items():
            if form in text:
                yield f"{where} shows {what} (of {len(form)} characters)"


watch = Watch()
logs = Logs()


def learn(value: str | bytes, what: str = "a secret of a test") -> None:
    """Record a secret of a test, so that an output that contains it fails the test."""
    watch.learn(value, what)


def pytest_configure() -> None:
    """Install the hooks where secrets are created and where texts are shown."""
    _record_calls(
        keystore, "_write_new_private_file", before=lambda _path, text: _record_password(text)
    )
    _record_calls(keystore, "read_secret_file", after=_record_password)
    _record_calls(keystore, "import_eth_account", after=_record_created_keys)
    _record_calls(KeySigner, "__init__", before=lambda _self, key: watch.learn(key, "a key"))
    _record_calls(
        OracleError,
        "__init__",
        before=lambda _self, *arguments: watch.record_text("an error", arguments),
    )
    _record_calls(
        CaptureFixture, "readouterr", after=lambda read: watch.record_text("output", "".join(read))
    )
    _record_calls(
        subprocess.Popen, "communicate", after=lambda read: watch.record_text("a program", read)
    )
    _record_calls(subprocess.Popen, "__init__", before=logs.follow)


def _record_password(text: str) -> None:
    # The other file is a keystore, which is not secret.
    if not text.lstrip().startswith("{"):
        watch.learn(text.strip(), "a password")


def _record_created_keys(accounts: Any) -> None:
    """Record the keys that this process creates as secrets, because a daemon may open them."""
    if getattr(accounts.encrypt, "__name__", "") != "received":
        _record_calls(accounts, "encrypt", before=lambda key, *_: watch.learn(bytes(key), "a key"))


def _record_calls(owner: Any, name: str, *, before: Any = None, after: Any = None) -> None:
    original = getattr(owner, name)

    def received(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            before(*arguments, *named.values())
        result = original(*arguments, **named)
        if after is not None:
            after(result)
        return result

    setattr(owner, name, received)


def pytest_warning_recorded(warning_message: Any) -> None:
    watch.record_text("a warning", warning_message.message)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Fail the phase of a test in which a secret was shown."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "teardown":
        watch.record_text("a log", logs.news())
    shown = [*report.sections]
    if report.longrepr is not None:
        shown.append(("the traceback", str(report.longrepr)))
    leaks = watch.leaks(*shown)
    if leaks:
        report.outcome = "failed"
        # Output and traceback contain the secret, so they are not printed.
        report.sections = []
        report.longrepr = "\n".join(leaks)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Read the metrics after the last test of a process."""
    yield
    if nextitem is None:
        watch.record_text("the metrics", generate_latest(REGISTRY).decode())
