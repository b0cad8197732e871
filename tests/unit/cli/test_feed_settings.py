"""`[feed]`: one clear line for each thing that cannot be."""

import pytest

from tests.support.cli.local_network import Settings, write
from tests.support.cli.refusal import refused

URL = "https://relay.example"


def complaint(capsys, sound: Settings, tmp_path, **feed: object) -> str:
    sound["feed"] = feed
    told: str = refused(capsys, "status", "--config", write(sound, tmp_path / "config.toml"))
    return told


@pytest.mark.parametrize(
    ("feed", "line"),
    [
        ({"url": "ftp://relay"}, "feed.url: a feed is an http:// or https:// address"),
        ({"url": f"{URL}/?start=1"}, "feed.url: a feed is an address without `?` and `#`"),
        ({"compare_url": URL}, "feed.compare_url: needs feed.url"),
        ({"url": URL, "compare_url": URL}, "feed.compare_url: is feed.url"),
        ({"url": URL, "settle_seconds": 9}, "feed.settle_seconds: "),
        ({"url": URL, "profile": "bitcoin"}, "feed.profile: "),
        ({"url": URL, "start_id": -1}, "feed.start_id: "),
        ({"url": URL, "page_rows": 0}, "feed.page_rows: "),
        ({"url": URL, "interval": 3}, "feed.interval: is not a setting"),
    ],
)
def test_what_cannot_be_is_one_line(capsys, sound, tmp_path, feed: Settings, line: str):
    assert line in complaint(capsys, sound, tmp_path, **feed)


@pytest.mark.parametrize("section", ["oracle", "dispatch"])
def test_what_sends_and_a_feed_do_not_go_together(capsys, sound, tmp_path, section: str):
    name = {"oracle": "publish", "dispatch": "enabled"}[section]
    sound[section] = {name: True}
    told = complaint(capsys, sound, tmp_path, url=URL)
    assert f"{section}.{name}: is on, and nothing from a feed may go to a contract" in told

    sound[section] = {name: True}
    told = complaint(capsys, sound, tmp_path, url=URL, may_publish=True)
    assert "nothing from a feed" not in told


def test_groups_that_close_by_counting_have_none_to_count(capsys, sound, tmp_path):
    sound["rules"] = {"set": "relay", "close": "terminal"}
    assert "rules.close: must be" in complaint(capsys, sound, tmp_path, url=URL)


def test_a_key_in_an_address_is_never_shown(capsys, sound, tmp_path):
    url = f"{URL}/a-key-that-nobody-sees"
    told = complaint(capsys, sound, tmp_path, url=url, compare_url=url)
    assert "nobody-sees" not in told
