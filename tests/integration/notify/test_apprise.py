"""An address of Apprise's is told as a webhook is: for real, by the extra `notify`."""

import json
from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.errors import InputError
from oracle.notify.apprise_target import AppriseTarget
from oracle.notify.target import NotDeliveredError, NoticeFilter, build_test_message
from tests.integration.notify.told import Told

# Apprise asks for it where a Python still has it.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
TOKEN = "a-token-of-the-channel"  # noqa: S105 - nobody's


@pytest.fixture
def address(told: Told) -> str:
    """Apprise's own JSON service, at the receiver; the path is a token."""
    return f"{told.receiver.url.replace('http://', 'json://')}/{TOKEN}"


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


def test_message_is_delivered_with_title_text_and_notice_id(told: Told, target):
    target.send(build_test_message(5_000))

    (delivery,) = told.receiver.got
    assert delivery.said["title"] == "QoS oracle: test"
    assert delivery.said["message"].endswith("(#test)")


def test_notices_are_delivered_in_order_and_retried_after_failure(told: Told, target):
    told.restart([target])
    told.begin()
    told.receiver.statuses.append(500)
    told.times_out("A", 3)
    told.tell()
    assert told.place("channel").tries == 1

    told.now = told.place("channel").next_at
    told.tell()
    messages = [delivery.said["message"] for delivery in told.receiver.got]
    numbers = [int(text.rpartition("#")[2].rstrip(")")) for text in messages]
    assert numbers[0] == numbers[1]
    assert numbers[1:] == sorted(set(numbers))
    assert len(numbers) > 3


def test_failed_delivery_error_hides_target_url(told: Told, target):
    told.receiver.statuses.append(500)

    with pytest.raises(NotDeliveredError) as refused:
        target.send(build_test_message(5_000))
    assert TOKEN not in str(refused.value)


def test_notify_test_sends_through_apprise_and_hides_target_url(config: Path, told: Told, capsys):
    told.receiver.statuses.extend([200, 500])

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
