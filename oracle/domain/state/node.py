"""The state of a node: membership, hardware, score pool, reliability."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import Version
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address


class Membership(StrEnum):
    """Whether the node is in the network; only a member has a QoS."""

    UNKNOWN = "unknown"
    MEMBER = "member"
    QUIT = "quit"
    SLASHED = "slashed"
    KICKED_OUT = "kicked_out"


class PendingLeave(StrEnum):
    """The request that takes effect when the node's current task ends."""

    PAUSE = "pause"
    QUIT = "quit"


class DownloadRequest(NamedTuple):
    """A request to a node to download a model; no other request for it is made before `until`.

    Times are block times in seconds. The request is answered once the model is on disk.
    """

    model: str
    asked_at: int
    until: int


# Requests are kept for this many seconds, because budgets are per day.
DOWNLOAD_HISTORY_SECONDS = 86_400


@dataclass(slots=True)
class Node:
    """The state of one node, changed by the fold only.

    `pool` holds the last task scores, oldest first, one byte each (rules refuse scores above 255);
    `pool_sum` is their sum. `scored` counts all task scores ever. `base` and `since` are the
    reliability of docs/reference/scoring-rules.md#reliability in units of 10^-18 and seconds.
    `prior` is the long-term score of an empty pool (None: the rules' default). `kickout_due_since`
    is the position at which the kickout predicate became true, None while it is false.
    `starts_anew`: the node was kicked out while the predicate was true, and has not rejoined.
    `changed_at` is the block of the last change of this row. `pending` is the node's request that
    takes effect when its task ends. `last_start` is the block time of its last task start, None
    before the first. `downloads` are the requests of the day up to the last request, oldest first.

    The five fields from `window` on are for the legacy system only
    (docs/explanation/legacy.md#scores): `window` is the number of the window whose task scores
    `window_sum` and `window_count` add up; `online_since` is the block time at which the node's
    membership began, or the window, if later (None: no member), `online_seconds` the membership
    time in this window before that.
    """

    address: Address
    membership: Membership
    paused: bool
    # Tasks it runs now; more than one only inside a transaction
    # (docs/reference/events-and-jsonl.md#what-is-legal).
    running: int
    stake: int | None
    gpu_name: str | None
    gpu_vram: int | None
    version: Version | None
    models: tuple[str, ...]
    in_use: tuple[str, ...]
    timeout: int | None
    pool: bytes
    pool_sum: int
    scored: int
    base: int
    since: int
    # Stored exclusion, for rules with two thresholds.
    excluded: bool
    prior: int | None
    # How many of the rules' `restarts` this pool has been through (relay only).
    restarts: int
    kickout_due_since: Position | None
    starts_anew: bool
    changed_at: int
    window: int = 0
    window_sum: int = 0
    window_count: int = 0
    online_since: int | None = None
    online_seconds: int = 0
    pending: PendingLeave | None = None
    last_start: int | None = None
    downloads: tuple[DownloadRequest, ...] = ()


def create_node(address: Address, time: int, restarts: int) -> Node:
    """Return a new node: no member, nothing known, H = 1."""
    return Node(
        address=address,
        membership=Membership.UNKNOWN,
        paused=False,
        running=0,
        stake=None,
        gpu_name=None,
        gpu_vram=None,
        version=None,
        models=(),
        in_use=(),
        timeout=None,
        pool=b"",
        pool_sum=0,
        scored=0,
        base=UNIT,
        since=time,
        excluded=False,
        prior=None,
        restarts=restarts,
        kickout_due_since=None,
        starts_anew=False,
        changed_at=0,
    )
