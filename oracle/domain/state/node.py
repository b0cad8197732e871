"""The state of a node: membership, hardware, score pool, reliability."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import Version
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address


class Membership(StrEnum):
    """Whether a node is in the network; only a member has a QoS."""

    UNKNOWN = "unknown"
    MEMBER = "member"
    QUIT = "quit"
    SLASHED = "slashed"
    KICKED_OUT = "kicked_out"


class PendingLeave(StrEnum):
    """A request of a node that takes effect when its current task ends."""

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

    `pool` holds the last task scores, oldest first, one byte each (rules refuse scores above 255),
    and `pool_sum` is their sum. `scored` counts all task scores ever. The reliability was `base`,
    in units of 10^-18, at the block time `since` (docs/reference/scoring-rules.md#reliability).
    `prior` is the long-term score of an empty pool, or None for the rules' default.
    `kickout_due_since` is the position at which the kickout became due, or None while it is not.
    `starts_anew` means that the node was kicked out while that was due, and has not rejoined.
    `changed_at` is the block of the last change of this row. `pending` is the node's request that
    takes effect when its task ends. `last_start` is the block time of the node's last task start,
    or None before the first. `downloads` are the requests of the day up to the last request,
    oldest first.

    The five fields from `window` on are for the legacy system only
    (docs/explanation/legacy.md#scores). `window` is the number of the current window, and
    `window_sum` and `window_count` are sum and number of its task scores. `online_since` is the
    block time at which the membership or, if later, the window began; it is None for a non-member.
    `online_seconds` is the membership time in this window before `online_since`.
    """

    address: Address
    membership: Membership
    paused: bool
    # Number of tasks that the node runs now; above 1 only inside a transaction
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
    """Return a new node that is not a member and has H = 1; everything else is unknown."""
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
