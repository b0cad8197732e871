"""A node as the fold knows it: membership, hardware, score pool, reliability."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import Version
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address


class Membership(StrEnum):
    """Whether the node is in the network; everything but MEMBER means that it has no QoS."""

    UNKNOWN = "unknown"
    MEMBER = "member"
    QUIT = "quit"
    SLASHED = "slashed"
    KICKED_OUT = "kicked_out"


class Pending(StrEnum):
    """What a node does when the task ends that it runs now."""

    PAUSE = "pause"
    QUIT = "quit"


class DownloadRequest(NamedTuple):
    """That a node was asked to download a model: when, and until when nobody asks it again.

    Block time in seconds. It is answered where the model is on the node's disk.
    """

    model: str
    asked_at: int
    until: int


# So long a request is remembered, in seconds: budgets count a day.
REMEMBERED_SECONDS = 86_400


@dataclass(slots=True)
class Node:
    """One node, owned and changed by the fold alone; everybody else reads it.

    `pool` holds the last task scores, oldest first, one byte each (rules refuse scores above
    255); `pool_sum` their sum. `scored` counts every task score ever. `base` and `since` are the
    reliability of docs/reference/scoring-rules.md#reliability in units of 10^-18 and seconds.
    `prior` is the long-term score that an empty pool stands for (None: the rules' default).
    `kickout_due_since` is the position at which the kickout predicate became true, None while it
    is false. `starts_anew`: it was kicked out while the predicate was true, and is not back yet.
    `changed_at` is the block of the last change of this row. `pending` is what it asked
    for while it ran a task, and does where that ends. `last_start` is the block time at which it
    was given its last task, None: never one. `downloads` are the requests of the last
    day, as of the last one, oldest first.

    The five from `window` on are the legacy system's alone (docs/explanation/legacy.md#scores):
    `window` numbers the window that `window_sum` and `window_count` sum task scores of;
    `online_since` is the block time at which the node's membership began, or the window, if later
    (None: no member), `online_seconds` what it was a member for in this window before that.
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
    # Remembered exclusion, for rules with two thresholds.
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
    pending: Pending | None = None
    last_start: int | None = None
    downloads: tuple[DownloadRequest, ...] = ()


def new_node(address: Address, time: int, restarts: int) -> Node:
    """Return a node as we first hear of it: no member, nothing known, H = 1."""
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
