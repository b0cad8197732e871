"""The section `[feed]` for a second source of events besides the chain, and its checks."""

from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from oracle.daemon.config.redaction import SECRET
from oracle.daemon.config.sections import Section, check_http_url
from oracle.domain.feed_rows import MAX_ROW_ID, SAME_TRANSACTION_SECONDS
from oracle.systems.registry import build_rules


def _check_feed_url(value: str) -> str:
    url_parts = urlsplit(check_http_url(value))
    if url_parts.query or url_parts.fragment:
        raise ValueError("expected a URL without `?` and `#`; the daemon adds the query itself")
    return value


FeedUrl = Annotated[str, AfterValidator(_check_feed_url), SECRET]


class FeedSection(Section):
    # URL of the feed: `https://relay.crynux.io`. By default there is no feed. The rows of a feed
    # have no proof; keys in the URL are never shown.
    url: FeedUrl | None = None
    # The format of the feed's rows.
    profile: Literal["crynux-relay"] = "crynux-relay"
    # A second feed with the same rows, such as your own mirror. The daemon only compares the
    # second feed with the first feed, and stores none of its rows.
    compare_url: FeedUrl | None = None
    # Whether reports, kickouts and starts that depend on the feed may be sent to a contract.
    may_publish: bool = False
    # The id of the row after which a new database starts; 0 starts with the oldest row that the
    # feed still has.
    start_id: int = Field(default=0, ge=0, le=MAX_ROW_ID)
    # Seconds between two polls. The time of a row is no more precise than this.
    poll_seconds: float = Field(default=1.0, gt=0, le=60)
    # Requested rows per page; a feed may return fewer rows.
    page_rows: int = Field(default=1000, ge=1, le=10_000)
    # Seconds for which a row waits for rows with lower ids.
    settle_seconds: int = Field(default=30, ge=SAME_TRANSACTION_SECONDS, le=3600)
    # Seconds without a new row after which the daemon is not ready.
    silent_seconds: int = Field(default=900, ge=60)
    # Seconds between two checks of old rows and of the second feed.
    reread_seconds: int = Field(default=3600, ge=60)
    # Timeout of a request, in seconds.
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    # The largest accepted response, in MiB; if a page is larger, fewer rows are requested.
    max_response_mib: int = Field(default=16, ge=1, le=256)
    # The largest accepted difference between the feed's clock and the local clock, in seconds; if
    # it is larger, no rows are stored.
    drift_seconds: int = Field(default=60, ge=1, le=3600)


def find_feed_faults(
    feed: FeedSection,
    rule_set_name: str,
    rule_changes: Mapping[str, str],
    publishing_settings: list[str],
) -> list[str]:
    """Return a message for each conflict between settings of `[feed]`.

    `publishing_settings` are the names of the active settings that send data to a contract. Faults
    of the rules themselves are left out.
    """
    if feed.url is None:
        return ["feed.compare_url: requires feed.url"] if feed.compare_url is not None else []
    faults = []
    if feed.compare_url == feed.url:
        faults.append(
            "feed.compare_url: the URL is the same as feed.url; use the URL of another feed"
        )
    if not feed.may_publish:
        faults += [
            f"{setting}: is on, but data from a feed must not be sent to a contract; set "
            "feed.may_publish = true to permit it"
            for setting in publishing_settings
        ]
    try:
        rules = build_rules(rule_set_name, rule_changes)
    except ValueError:
        return faults
    if rules.close != "validated":
        faults.append(
            'rules.close: must be "validated" with a feed, whose rows name no group before that'
        )
    return faults
