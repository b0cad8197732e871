"""The section `[feed]`: a second kind of source beside the chain, and its faults."""

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from oracle.daemon.config.redaction import SECRET
from oracle.daemon.config.sections import Section
from oracle.domain.feed_rows import LARGEST_ID, SAME_SECONDS
from oracle.domain.scoring.rules import Rules
from oracle.systems.registry import rule_set


def _feed_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("a feed is an http:// or https:// address")
    if parts.query or parts.fragment:
        raise ValueError("a feed is an address without `?` and `#`: what is asked goes there")
    return value


FeedUrl = Annotated[str, AfterValidator(_feed_url), SECRET]


class FeedSection(Section):
    # Where the feed is: `https://relay.crynux.io`. Left out: there is none. What it says has no
    # proof; keys in the address are never shown.
    url: FeedUrl | None = None
    # How its rows speak.
    profile: Literal["crynux-relay"] = "crynux-relay"
    # A second feed of the same rows, such as a mirror of ours: both are compared, and nothing is
    # taken from it.
    compare_url: FeedUrl | None = None
    # Whether reports, kickouts and starts that rest on it may go to a contract.
    may_publish: bool = False
    # A new database begins after this row; 0: with the oldest that the feed still has.
    start_id: int = Field(default=0, ge=0, le=LARGEST_ID)
    # Seconds between two polls: what a row's time may be wrong by.
    poll_seconds: float = Field(default=1.0, gt=0, le=60)
    # Rows of one page; a feed may give fewer.
    page_rows: int = Field(default=1000, ge=1, le=10_000)
    # How long a row waits for one of a lower id to come, in seconds.
    settle_seconds: int = Field(default=30, ge=SAME_SECONDS, le=3600)
    # After so many seconds without a new row the daemon is not ready.
    silent_seconds: int = Field(default=900, ge=60)
    # Seconds between two looks at old rows, and at the second feed.
    reread_seconds: int = Field(default=3600, ge=60)
    # How long one answer may take, in seconds.
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    # The largest answer that is read, in MiB; a larger page is asked for in halves.
    max_response_mib: int = Field(default=16, ge=1, le=256)
    # How far the feed's clock may be from ours, in seconds; beyond that nothing is taken in.
    drift_seconds: int = Field(default=60, ge=1, le=3600)


def feed_faults(
    feed: FeedSection, name: str, changes: Mapping[str, str], sends: list[str]
) -> list[str]:
    """Return the same where the rules are not made yet; their own faults are told elsewhere."""
    try:
        rules = rule_set(name, changes)
    except ValueError:
        rules = None
    return faults_in_feed(feed, rules, sends=sends)


def faults_in_feed(feed: FeedSection, rules: Rules | None, *, sends: list[str]) -> list[str]:
    """Return what cannot stand together in `[feed]`, in one line each.

    `sends` are the settings by which something goes to a contract; `rules` None: they have faults
    of their own.
    """
    if feed.url is None:
        return ["feed.compare_url: needs feed.url"] if feed.compare_url is not None else []
    faults = []
    if feed.compare_url == feed.url:
        faults.append("feed.compare_url: is feed.url: nothing would be compared")
    if not feed.may_publish:
        faults += [
            f"{setting}: is on, and nothing from a feed may go to a contract "
            "(feed.may_publish = true allows it)"
            for setting in sends
        ]
    if rules is not None and rules.close != "validated":
        faults.append(
            'rules.close: must be "validated" beside a feed, which names no group before'
        )
    return faults
