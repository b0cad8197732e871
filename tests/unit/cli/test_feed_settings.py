"""`[feed]`: each invalid setting is reported in one line."""

import pytest

from tests.support.cli.local_network import Settings, write_config
from tests.support.cli.refusal import run_refused_command

URL = "https://relay.example"


def complaint(capsys, offline_settings: Settings, tmp_path, **feed: object) -> str:
    offline_settings["feed"] = feed
    error_line: str = run_refused_command(
        capsys, "status", "--config", write_config(offline_settings, tmp_path / "config.toml")
    )
    return error_line


@pytest.mark.parametrize(
    ("feed", "line"),
    [
        ({"url": "ftp://relay"}, "feed.url: expected an http:// or https:// URL"),
        ({"url": f"{URL}/?start=1"}, "feed.url: expected a URL without `?` and `#`"),
        ({"compare_url": URL}, "feed.compare_url: requires feed.url"),
        ({"url": URL, "compare_url": URL}, "feed.compare_url: the URL is the same as feed.url"),
        ({"url": URL, "settle_seconds": 9}, "feed.settle_seconds: "),
        ({"url": URL, "profile": "bitcoin"}, "feed.profile: "),
        ({"url": URL, "start_id": -1}, "feed.start_id: "),
        ({"url": URL, "page_rows": 0}, "feed.page_rows: "),
        ({"url": URL, "interval": 3}, "feed.interval: unknown setting"),
    ],
)
def test_invalid_feed_setting_causes_a_one_line_error(
    capsys, offline_settings, tmp_path, feed: Settings, line: str
):
    assert line in complaint(capsys, offline_settings, tmp_path, **feed)


@pytest.mark.parametrize("section", ["oracle", "dispatch"])
def test_publishing_from_feed_is_rejected_unless_allowed(
    capsys, offline_settings, tmp_path, section: str
):
    name = {"oracle": "publish", "dispatch": "enabled"}[section]
    offline_settings[section] = {name: True}
    error_line = complaint(capsys, offline_settings, tmp_path, url=URL)
    assert f"{section}.{name}: is on, but data from a feed must not be sent" in error_line

    offline_settings[section] = {name: True}
    error_line = complaint(capsys, offline_settings, tmp_path, url=URL, may_publish=True)
    assert "data from a feed" not in error_line


def test_terminal_close_rule_is_rejected_for_relay_rules(capsys, offline_settings, tmp_path):
    offline_settings["rules"] = {"set": "relay", "close": "terminal"}
    assert "rules.close: must be" in complaint(capsys, offline_settings, tmp_path, url=URL)


def test_feed_url_key_is_never_printed(capsys, offline_settings, tmp_path):
    url = f"{URL}/a-key-that-nobody-sees"
    error_line = complaint(capsys, offline_settings, tmp_path, url=url, compare_url=url)
    assert "nobody-sees" not in error_line
