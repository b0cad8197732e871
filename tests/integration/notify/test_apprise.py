"""Apprise targets get the same messages as a webhook;
uses the real library of the extra `notify`.
"""

import json
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.errors import InputError
from oracle.notify.apprise_target import AppriseTarget
from oracle.notify.target import NotDeliveredError, NoticeFilter, build_test_message
from tests.integration.notify.notified_daemon import NotifiedDaemon

# Apprise imports it on Pythons that still have it.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
TOKEN = "a-token-of-the-channel"  # noqa: S105 - nobody's


@pytest.fixture
def address(notified_daemon: NotifiedDaemon) -> str:
    """Return the URL of Apprise's JSON service at the receiver; the path is a token."""
    return f"{notified_daemon.receiver.url.replace('http://', 'json://')}/{TOKEN}"


@pytest.fixture
def target(address: str) -> AppriseTarget:
    return AppriseTarget("channel", NoticeFilter(), address)


@pytest.fixture
def config(tmp_path: Path, sqlite_url: str, address: str) -> Path:
    path = tmp_path / "oracle.toml"
    path.write_text(
        f'[database]\nurl = "{sqlite_url}"\n'
        '[chain]\nid = 31337\nendpoints = ["http://127.0.0.1:1"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "0x{1:040x}" }}\n'
        f'[[notify]]\nname = "channel"\nurl = "{address}"\n',
        "utf-8",
    )
    path.chmod(0o600)
    return path


def test_apprise_message_contains_title_text_and_notice_id(
    notified_daemon: NotifiedDaemon, target
):
    target.send(build_test_message(5_000))

    (delivery,) = notified_daemon.receiver.got
    assert delivery.decoded["title"] == "QoS oracle: test"
    assert delivery.decoded["message"].endswith("(#test)")


def test_notices_are_delivered_in_order_and_retried_after_failure(
    notified_daemon: NotifiedDaemon, target
):
    notified_daemon.restart([target])
    notified_daemon.begin()
    notified_daemon.receiver.statuses.append(500)
    notified_daemon.times_out("A", 3)
    notified_daemon.run_until_idle()
    assert notified_daemon.place("channel").tries == 1

    notified_daemon.now = notified_daemon.place("channel").next_at
    notified_daemon.run_until_idle()
    messages = [delivery.decoded["message"] for delivery in notified_daemon.receiver.got]
    numbers = [int(text.rpartition("#")[2].rstrip(")")) for text in messages]
    assert numbers[0] == numbers[1]
    assert numbers[1:] == sorted(set(numbers))
    assert len(numbers) > 3


def test_failed_delivery_error_hides_target_url(notified_daemon: NotifiedDaemon, target):
    notified_daemon.receiver.statuses.append(500)

    with pytest.raises(NotDeliveredError) as refused:
        target.send(build_test_message(5_000))
    assert TOKEN not in str(refused.value)


def test_notify_test_sends_through_apprise_and_hides_target_url(
    config: Path, notified_daemon: NotifiedDaemon, capsys
):
    notified_daemon.receiver.statuses.extend([200, 500])

    assert run(["notify", "test", "-c", str(config)]) == 0
    assert run(["notify", "test", "-c", str(config), "--json"]) == 1

    captured = capsys.readouterr()
    assert captured.out.startswith("channel: delivered\n")
    (answer,) = json.loads(captured.out.partition("\n")[2])
    assert answer == {
        "target": "channel",
        "error": "channel: Apprise could not deliver the message",
    }
    assert TOKEN not in captured.out + captured.err


def test_unknown_apprise_url_is_rejected():
    with pytest.raises(InputError, match="Apprise rejects the URL"):
        AppriseTarget("channel", NoticeFilter(), "carrier-pigeon://roof/")
