"""Log lines in text or JSON, without secrets."""

import io
import json
import logging

import pytest
import structlog

from oracle.telemetry import safe_text
from oracle.telemetry.logging_setup import configure_logging
from oracle.telemetry.safe_text import redact_secrets, register_secret

KEYED = "https://user:pass@eth.example.org:8443/v3/0123456789abcdef?apikey=xyz"


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch):
    monkeypatch.setattr(safe_text, "_hidden", set())


@pytest.fixture
def out():
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    return stream


def lines(out):
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_log_line_is_json_with_time_and_level(out):
    structlog.get_logger().info("step_completed", blocks="1..2", logs=3)

    (line,) = lines(out)
    assert line["event"] == "step_completed"
    assert line["level"] == "info"
    assert line["logs"] == 3
    assert line["timestamp"].endswith("Z")


def test_text_format_is_plain_on_a_terminal():
    stream = io.StringIO()
    configure_logging("text", "info", stream)

    structlog.get_logger().info("step_completed", logs=3)

    assert "step_completed" in stream.getvalue()
    assert "logs=3" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_cleanup_error_of_a_lost_connection_is_not_logged(out):
    # The logger of a pool is a child of this one.
    logging.getLogger("sqlalchemy.pool.impl.QueuePool").error("Error closing cursor")  # noqa: TID251
    assert out.getvalue() == ""


def test_log_lines_below_the_level_are_omitted(out):
    structlog.get_logger().debug("looked")
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    "fact",
    [
        KEYED,
        f"cannot reach {KEYED}, giving up",
        [KEYED],
        {"first": {"url": KEYED}},
        ValueError(KEYED),
    ],
)
def test_credentials_and_keys_are_removed_from_urls(out, fact):
    structlog.get_logger().info("asked", fact=fact)

    assert "https://eth.example.org:8443" in out.getvalue()
    for secret in ("user", "pass", "0123456789abcdef", "xyz"):
        assert secret not in out.getvalue()


def test_url_in_event_name_is_redacted(out):
    structlog.get_logger().info(f"asked {KEYED}")
    assert "xyz" not in out.getvalue()


@pytest.mark.parametrize(
    "name", ["password", "signer_password", "private_key", "PRIVATEKEY", "api_key", "mnemonic"]
)
def test_values_under_secret_names_are_redacted(out, name):
    structlog.get_logger().info("unlocked", **{name: "hunter2"}, nested={name: "hunter2"})
    assert "hunter2" not in out.getvalue()


def test_registered_secrets_are_redacted_everywhere(out):
    register_secret("correct horse")
    structlog.get_logger().info("unlocked", detail="the words are correct horse battery")
    assert "correct horse" not in out.getvalue()


def test_registering_blank_secret_redacts_nothing(out):
    register_secret("")
    register_secret("  ")
    structlog.get_logger().info("step done")
    assert lines(out)[0]["event"] == "step done"


def test_tracebacks_contain_no_secrets(out):
    try:
        int(KEYED)
    except ValueError:
        structlog.get_logger().exception("failed")

    (line,) = lines(out)
    assert "ValueError" in line["exception"]
    assert "xyz" not in out.getvalue()


def test_library_warnings_are_logged_and_redacted(out):
    logging.getLogger("some.library").warning("retrying %s", KEYED)  # noqa: TID251 - as they do
    logging.getLogger("some.library").info("connected")  # noqa: TID251

    (line,) = lines(out)
    assert line["level"] == "warning"
    assert "xyz" not in out.getvalue()


def test_sqlite_url_keeps_path():
    assert redact_secrets("sqlite:////var/lib/oracle.sqlite") == "sqlite:////var/lib/oracle.sqlite"


def test_user_and_password_are_removed_from_a_server_url():
    redacted = redact_secrets("postgresql://me:hunter2@db.example.org:5432/oracle")
    assert redacted == "postgresql://db.example.org:5432"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://127.0.0.1:8545: no answer", "http://127.0.0.1:8545: no answer"),
        ("https://a.example.org#2: no answer", "https://a.example.org#2: no answer"),
        ("https://a.example.org/#0123456789abcdef", "https://a.example.org"),
        ("see http://[docs for more", "see http://[redacted] for more"),
    ],
)
def test_url_in_text_keeps_host_and_port(text, expected):
    assert redact_secrets(text) == expected


def test_registered_secret_in_host_name_is_redacted():
    register_secret("a-key-in-the-host")
    redacted = redact_secrets("https://a-key-in-the-host.example.org/x failed")
    assert redacted == "https://[redacted].example.org failed"
