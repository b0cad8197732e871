"""A report: the root of all nodes at the end of a period, and how the lanes changed.

A report depends only on the chain up to the as-of block and on the rules id. See
docs/explanation/reports.md#cut-at-period-end, docs/reference/report-format.md#roots.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, Self, TypeAlias

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.lanes import DO_NOT_SELECT, HIGHEST_SCORE, LOWEST_SCORE, get_lane_band
from oracle.domain.scoring.rules import Rules

# The lane of each node, by seat.
Lanes: TypeAlias = Sequence[int]
# In a large network most lanes do not change in a round, so lanes are compared in runs of this
# length.
_LANES_PER_RUN = 64


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """The settings that decide which reports are signed.

    All of them are part of the rules id. `period_seconds` is the length of a period. A report
    becomes a round if a node changes its band or a lane changes by `deviation` steps of 0.0001 or
    more since the last round, or if the last round is `heartbeat_seconds` old. The contract
    accepts a report until `ttl_seconds` after its as-of block. `kick_below` is the contract's
    kickout line in QoS steps, 2000 for 0.2. `requires_proof` means that a report with a newly due
    kickout is signed only by reporters that have verified the blocks behind the kickout as far as
    the chain allows.
    """

    period_seconds: int = 60
    heartbeat_seconds: int = 3600
    deviation: int = 100
    ttl_seconds: int = 600
    kick_below: int = 2000
    requires_proof: bool = True

    def __post_init__(self) -> None:
        for name in ("period_seconds", "heartbeat_seconds", "deviation", "ttl_seconds"):
            setting_value = getattr(self, name)
            if setting_value < 1:
                raise ValueError(f"{name}: must be at least 1, not {setting_value}")
        if not 0 <= self.kick_below <= HIGHEST_SCORE - LOWEST_SCORE:
            raise ValueError(f"kick_below: must be 0 to 10000, not {self.kick_below}")

    @property
    def kick_line(self) -> int:
        """The kickout line, encoded as a lane like a score."""
        return self.kick_below + LOWEST_SCORE


class ReportChange(NamedTuple):
    """How the encoded scores (lanes) of a report differ from the last accepted round.

    `node_count` is the number of lanes that differ, `steps` the sum of their differences and
    `max_steps` the largest. `crosses_band` means that a node changes its band (`get_lane_band`).
    """

    node_count: int = 0
    steps: int = 0
    max_steps: int = 0
    crosses_band: bool = False


def measure_lane_changes(old_lanes: Lanes, new_lanes: Lanes, kick_line: int) -> ReportChange:
    """Measure how the encoded scores (lanes) of nodes changed.

    A missing old lane counts as not selectable. `kick_line` is the kickout line as a lane
    (`ReportSettings.kick_line`).
    """
    if old_lanes is new_lanes:
        return ReportChange()
    node_count = steps = max_steps = 0
    crosses_band = False
    for first in range(0, max(len(old_lanes), len(new_lanes)), _LANES_PER_RUN):
        old_run = old_lanes[first : first + _LANES_PER_RUN]
        new_run = new_lanes[first : first + _LANES_PER_RUN]
        if old_run == new_run:
            continue
        for old_lane, new_lane in zip_longest(old_run, new_run, fillvalue=DO_NOT_SELECT):
            if old_lane == new_lane:
                continue
            lane_difference = abs(new_lane - old_lane)
            node_count += 1
            steps += lane_difference
            max_steps = max(max_steps, lane_difference)
            if not crosses_band:
                crosses_band = get_lane_band(old_lane, kick_line) != get_lane_band(
                    new_lane, kick_line
                )
    return ReportChange(node_count, steps, max_steps, crosses_band)


@dataclass(frozen=True, slots=True)
class Report:
    """The report for one period, as of the last block of the period.

    `period` is the number of the period. `head_round` is the last round accepted up to the as-of
    block, so the report can only become round `head_round + 1`. `prev` is the root of
    `head_round`, or zero if there is no such round or it was struck. `root` is the root of all
    nodes in that round (docs/reference/report-format.md#roots). `change` describes how the lanes
    differ from the lanes of round `head_round`. A report that is not due is not signed. `change`
    and `is_due` are excluded from comparisons and the fingerprint, because a database that lacks
    the leaves of that round treats the report as due.
    """

    period: int
    as_of: BlockRef
    head_round: int
    prev: Hash
    deadline: int
    root: Hash
    change: ReportChange = field(compare=False)
    is_due: bool = field(compare=False)

    @property
    def fingerprint(self) -> Hash:
        """The SHA-256 of the whole report, for comparing reporters and rebuilds."""
        fingerprint_text = (
            f"{self.period} {self.as_of.number} {self.as_of.hash} {self.as_of.time} "
            f"{self.head_round} {self.prev} {self.deadline} {self.root}\n"
        )
        return Hash("0x" + hashlib.sha256(fingerprint_text.encode()).hexdigest())


def compute_period_number(time: int, period_seconds: int) -> int:
    """Return the number of the period that contains `time`.

    Both arguments are in seconds. See docs/explanation/reports.md#cut-at-period-end.
    """
    return time // period_seconds


def format_rules_id(rules: Rules, profile: str, settings: ReportSettings) -> str:
    """Return the rules id: canonical JSON of everything that all reporters must share.

    See docs/reference/report-format.md#rules-id.
    """
    rules_document: dict[str, object] = {
        "deviation": settings.deviation,
        "heartbeat_seconds": settings.heartbeat_seconds,
        "kick_below": settings.kick_below,
        "period_seconds": settings.period_seconds,
        "profile": profile,
        "report_ttl_seconds": settings.ttl_seconds,
        "requires_proof": settings.requires_proof,
        "rules": json.loads(rules.to_json()),
    }
    return json.dumps(rules_document, sort_keys=True, separators=(",", ":"))


def hash_rules_and_settings(rules: Rules, profile: str, settings: ReportSettings) -> Hash:
    """Return the SHA-256 of the rules id.

    The contract stores the hash as `rulesHash`.
    """
    rules_id = format_rules_id(rules, profile, settings)
    return Hash("0x" + hashlib.sha256(rules_id.encode()).hexdigest())


def cut_report(
    as_of: BlockRef,
    last_round: "PreviousRound",
    lanes: Lanes,
    root: Hash,
    settings: ReportSettings,
) -> Report:
    """Create the report as of the last block of a period.

    Args:
        as_of: the last block of the period.
        last_round: the last round accepted up to that block.
        lanes: the lanes of all nodes as of that block.
        root: the root of all nodes as of that block, in the next round.
        settings: the settings that are part of the rules id.
    """
    lane_changes = measure_lane_changes(last_round.lanes, lanes, settings.kick_line)
    is_heartbeat_due = as_of.time - last_round.time >= settings.heartbeat_seconds
    return Report(
        period=compute_period_number(as_of.time, settings.period_seconds),
        as_of=as_of,
        head_round=last_round.round,
        prev=last_round.root,
        deadline=as_of.time + settings.ttl_seconds,
        root=root,
        change=lane_changes,
        is_due=bool(lanes)
        and (
            is_heartbeat_due
            or lane_changes.crosses_band
            or lane_changes.max_steps >= settings.deviation
        ),
    )


class PreviousRound(NamedTuple):
    """The round that a report follows.

    Before the first round, there are no lanes. `root` is zero if the round was struck. `time` is
    the time of the block that accepted it.
    """

    round: int
    root: Hash
    time: int
    lanes: Lanes

    @classmethod
    def from_state(cls, contract_state: ContractState, lanes: Lanes | None = None) -> Self:
        """Return the last accepted round, with its encoded scores (lanes) if they are known."""
        head = contract_state.head
        return cls(
            round=contract_state.head_round,
            root=contract_state.previous_root,
            time=0 if head is None else head.time,
            lanes=() if lanes is None else lanes,
        )
