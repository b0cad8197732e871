"""The kinds of notices, and the keys accepted by `[[notify]] kinds`."""

from collections.abc import Mapping
from enum import StrEnum

from oracle.domain.health import Condition


class NoticeKind(StrEnum):
    TIMED_OUT = "timed_out"
    EXCLUDED = "excluded"
    RECOVERED = "recovered"
    JOINED = "joined"
    PAUSED = "paused"
    RESUMED = "resumed"
    LEFT = "left"
    KICKOUT_NEAR = "kickout_near"
    KICKOUT_FAR = "kickout_far"
    KICKOUT_DUE = "kickout_due"
    KICKOUT_OVER = "kickout_over"
    KICKOUT_ACCUSED = "kickout_accused"
    KICKOUT_EXECUTED = "kickout_executed"
    OBJECTION_MADE = "objection_made"
    INCIDENT_BEGAN = "incident_began"
    INCIDENT_OVER = "incident_over"
    RULES_ANNOUNCED = "rules_announced"
    RULES_CANCELLED = "rules_cancelled"
    RULES_SET = "rules_set"
    RULES_HIT_YOU = "rules_hit_you"
    REPORT_ACCEPTED = "report_accepted"
    REPORT_HELD = "report_held"
    REORG = "reorg"
    HALTED = "halted"
    HALT_CLEARED = "halt_cleared"
    CONDITION_BEGAN = "condition_began"
    CONDITION_OVER = "condition_over"
    DAEMON_WAS_DOWN = "daemon_was_down"


# The message of each kind of notice, on one line, with the notice's fields as placeholders.
_TEMPLATE_BY_KIND: Mapping[str, str] = {
    NoticeKind.TIMED_OUT: "{node} timed out: reliability {before} -> {after}",
    NoticeKind.EXCLUDED: "{node} is excluded: its reliability is {after}",
    NoticeKind.RECOVERED: "{node} can receive tasks again",
    NoticeKind.JOINED: "{node} joined",
    NoticeKind.PAUSED: "{node} paused",
    NoticeKind.RESUMED: "{node} resumed",
    NoticeKind.LEFT: "{node} left: {how}",
    NoticeKind.KICKOUT_NEAR: "{node} will be due to be kicked out in {scores} scored tasks,"
    " if they go like its last {recent_scores}",
    NoticeKind.KICKOUT_FAR: "{node} is no longer near a kickout",
    NoticeKind.KICKOUT_DUE: "{node} is due to be kicked out",
    NoticeKind.KICKOUT_OVER: "{node} is no longer due to be kicked out",
    NoticeKind.KICKOUT_ACCUSED: "{node} was accused in round {round}",
    NoticeKind.KICKOUT_EXECUTED: "{node} was kicked out",
    NoticeKind.OBJECTION_MADE: "{node} objected to its kickout: {reason}",
    NoticeKind.INCIDENT_BEGAN: "incident {incident} began: {cause}; {timeouts} timeouts on {nodes}"
    " nodes",
    NoticeKind.INCIDENT_OVER: "incident {incident} is over: {cause}",
    NoticeKind.RULES_ANNOUNCED: "rules {rules} were announced, for unix time {ready_at} at the"
    " earliest: `qos-oracle rules history`",
    NoticeKind.RULES_CANCELLED: "rules {rules} were announced, but will not come: cancelled",
    NoticeKind.RULES_SET: "rules {rules} are in force in the contract",
    NoticeKind.RULES_HIT_YOU: "{node} would fall from rank {rank_now} to {rank_then} under the"
    " announced rules {rules}; due to be kicked out: {due}; excluded: {excluded}",
    NoticeKind.REPORT_ACCEPTED: "round {round} was accepted, as of block {as_of}",
    NoticeKind.REPORT_HELD: "the report of period {period} is held: {reason}",
    NoticeKind.REORG: "reorg back to block {ancestor}: earlier messages about later blocks are"
    " retracted",
    NoticeKind.HALTED: "halted: {reason}",
    NoticeKind.HALT_CLEARED: "the halt was cleared by {by}: {reason}",
    NoticeKind.CONDITION_BEGAN: "{title} ({condition}): {detail}; {action}",
    NoticeKind.CONDITION_OVER: "resolved: {title} ({condition})",
    NoticeKind.DAEMON_WAS_DOWN: "no daemon was running for {down}",
}
_OPERATOR_KINDS = frozenset(
    {
        *(NoticeKind.REPORT_ACCEPTED, NoticeKind.REPORT_HELD),
        *(NoticeKind.HALTED, NoticeKind.HALT_CLEARED),
        *(NoticeKind.CONDITION_BEGAN, NoticeKind.CONDITION_OVER, NoticeKind.DAEMON_WAS_DOWN),
    }
)
# Kinds about the network. The owner of any node may subscribe to them.
OWNER_NETWORK_KINDS = frozenset(
    {
        *(NoticeKind.INCIDENT_BEGAN, NoticeKind.INCIDENT_OVER),
        *(NoticeKind.RULES_ANNOUNCED, NoticeKind.RULES_CANCELLED, NoticeKind.RULES_SET),
    }
)
# All kinds to which node owners may subscribe. `reorg` is not among them, because its notice goes
# to every target that received a notice which the reorg retracts.
OWNER_KINDS = frozenset(NoticeKind) - _OPERATOR_KINDS - {NoticeKind.REORG}
_HUNDREDTH_OF_PERCENT = 10**14
# Values that `[[notify]] kinds` accepts: kinds of notices, and health conditions.
SELECTABLE_KINDS = frozenset(
    {*(kind.value for kind in NoticeKind), *(condition.key for condition in Condition)}
)


def format_notice_text(kind: str, fields: Mapping[str, object]) -> str:
    """Format a notice about a node as one line, from the fields of its body."""
    formatted_fields = {name: _format_field(name, value) for name, value in fields.items()}
    return _TEMPLATE_BY_KIND[NoticeKind(kind)].format_map(formatted_fields)


def _format_field(name: str, value: object) -> object:
    """Format a field for display; a reliability in units of 10^-18 gets two decimals."""
    if name in {"before", "after"}:
        hundredths = int(str(value)) // _HUNDREDTH_OF_PERCENT // 100
        return f"{hundredths // 100}.{hundredths % 100:02}"
    return value
