"""The health of the daemon: all conditions with their severity and the action to take.

Status lines, readiness, pages, metrics and notices derive from `Condition`, which is the only
place that names a condition (docs/explanation/health.md).
"""

from collections.abc import Iterable
from enum import Enum, IntEnum
from typing import NamedTuple


class Severity(IntEnum):
    """The severity of a condition.

    The number is the exit code of `status`.
    """

    WELL = 0
    ATTENTION = 1
    DOWN = 2


_ATTENTION, _DOWN = Severity.ATTENTION, Severity.DOWN


class Condition(Enum):
    """A condition of the daemon, with its severity, public title and operator action.

    Titles and actions name no endpoint, account or folder; the detail of a `HealthFinding` may.
    """

    # Conditions that stop all work:
    HALTED = (_DOWN, "Halted: nothing is folded, signed or sent", "`qos-oracle halt list`")
    REFUSED = (
        _DOWN,
        "A block was refused, and indexing has stopped there",
        "`qos-oracle resync refusal`",
    )
    NO_ENDPOINT = (_DOWN, "No endpoint answers", "`qos-oracle endpoint probe`")
    STALLED = (
        _DOWN,
        "No endpoint shows a new block",
        "if the chain still produces blocks, add another endpoint",
    )
    DAEMON_SILENT = (_DOWN, "The daemon has stopped reporting", "check its log; restart it")
    LOOP_STUCK = (_DOWN, "A loop of the daemon is stuck", "check its log; restart it")
    GAP = (_DOWN, "A block is missing from the index", "`qos-oracle resync gaps`")
    # Conditions of the index:
    BEHIND = (
        _ATTENTION,
        "The index is behind the chain",
        "wait; `qos-oracle status` shows the remaining time",
    )
    OLD_HEAD = (
        _ATTENTION,
        "The newest block is old by this machine's clock",
        "check the chain, the endpoints and the clock",
    )
    FORK_IN_DOUBT = (
        _ATTENTION,
        "A fork is reported by one provider only",
        "wait for a second provider to confirm it",
    )
    ENDPOINTS_DISAGREE = (
        _ATTENTION,
        "Endpoints contradict each other",
        "remove the wrong one from [chain] endpoints, or add a third",
    )
    PROVEN_WRONG = (
        _ATTENTION,
        "An endpoint was proven wrong and is no longer used",
        "replace it, or repair it and run `qos-oracle endpoint readmit`",
    )
    UNPROVEN = (_ATTENTION, "Some stored data is not proven", "add another endpoint, or wait")
    STATE_DIFFERS = (
        _ATTENTION,
        "The state differs from a fold of its logs; nothing is published",
        "`qos-oracle resync verify --half state`",
    )
    WAITING_WITNESS = (
        _ATTENTION,
        "No second provider confirms the final blocks",
        "restore the other provider, or add one",
    )
    UNAUDITED = (
        _ATTENTION,
        "Blocks read from an endpoint that was proven wrong are not audited yet",
        "add another endpoint",
    )
    # Conditions of the feed:
    FEED_FAULT = (
        _ATTENTION,
        "The feed has an open fault; nothing is published",
        "`qos-oracle feed faults`",
    )
    FEED_SILENT = (_ATTENTION, "The feed has no new rows", "check the relay")
    # Conditions of sent transactions:
    REPORT_LATE = (_ATTENTION, "The last report is late", "`qos-oracle outbox list`")
    HELD = (_ATTENTION, "A report is held", "`qos-oracle report show`")
    PAUSED = (_ATTENTION, "The contract is paused", "`qos-oracle contract show`")
    PAUSED_SENDER = (_ATTENTION, "A sender account is paused", "`qos-oracle outbox list`")
    SIMULATION_BLOCKED = (
        _ATTENTION,
        "No call is sent, because endpoints do not agree that it would succeed",
        "remove the wrong endpoint, restore the others, or add a third",
    )
    SENDER_FUNDS = (_ATTENTION, "A sender account has too little ether", "send ether to it")
    ANNOUNCED_RULES_MISSING = (
        _ATTENTION,
        "Rules that were announced are not on this host",
        "get them from the contract's admin, and put them into rules.announced_folder",
    )
    RULES_NOT_FOLLOWED = (
        _ATTENTION,
        "The contract has other rules, to which the daemon cannot switch; nothing is published",
        "stop it, set [rules], and run `qos-oracle resync rebuild`",
    )
    # Conditions of the process:
    STEP_FAILING = (_ATTENTION, "A loop of the daemon keeps failing", "check its log")
    LOW_DISK = (_ATTENTION, "The database's disk is nearly full", "free space on the disk")
    WRONG_CLOCK = (
        _ATTENTION,
        "This machine's clock differs from that of every endpoint",
        "set the clock, and keep it synchronized (NTP)",
    )
    LEASE_WAIT = (_ATTENTION, "The daemon waits for the lease", "wait, or stop the other process")
    NO_LEADER = (_ATTENTION, "No daemon runs on this database", "start `qos-oracle run`")
    LAST_EXIT = (_ATTENTION, "The last daemon ended with a failure", "fix the cause in its reason")

    def __init__(self, severity: Severity, title: str, action: str) -> None:
        self.severity = severity
        self.title = title
        self.action = action

    @property
    def key(self) -> str:
        """The name of the condition in metrics, in JSON and in `[[notify]] kinds`."""
        return self.name.lower()

    @property
    def label(self) -> str:
        """The condition's name in `status` and `/readyz`."""
        return self.name.replace("_", "-")


# Without a daemon, a database that is not behind is healthy, because a timer may start `run
# --once`.
_ABANDONED = frozenset({Condition.NO_LEADER, Condition.BEHIND})


class HealthFinding(NamedTuple):
    """A condition that is active, with details for the operator."""

    condition: Condition
    detail: str

    def format_line(self) -> str:
        """Return the finding as one line for the operator."""
        return f"{self.condition.label}: {self.detail}"


class HealthReport(NamedTuple):
    """All active conditions.

    An empty report means that the daemon is healthy.
    """

    findings: tuple[HealthFinding, ...] = ()

    @classmethod
    def from_findings(cls, findings: Iterable[HealthFinding]) -> "HealthReport":
        """Build a report from findings in the given order, without duplicates."""
        return cls(tuple(dict.fromkeys(findings)))

    def merge(self, other_report: Iterable[HealthFinding]) -> "HealthReport":
        """Add the findings of another report whose conditions this report lacks."""
        known_conditions = set(self.conditions)
        return HealthReport.from_findings(
            [
                *self.findings,
                *(
                    finding
                    for finding in other_report
                    if finding.condition not in known_conditions
                ),
            ]
        )

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The active conditions in order, without duplicates."""
        return tuple(dict.fromkeys(finding.condition for finding in self.findings))

    @property
    def severity(self) -> Severity:
        """The worst severity of all conditions.

        It is DOWN if the index is behind and no daemon runs.
        """
        if set(self.conditions) >= _ABANDONED:
            return Severity.DOWN
        return max((condition.severity for condition in self.conditions), default=Severity.WELL)

    @property
    def worst_condition(self) -> Condition | None:
        """The first condition with the worst severity, or None if all is well."""
        return max(self.conditions, key=lambda condition: condition.severity, default=None)

    def format_line(self) -> str:
        """Return the severity and the conditions as one line."""
        conditions_text = ", ".join(condition.label for condition in self.conditions)
        detail = f": {conditions_text}" if conditions_text else ", no action needed"
        return f"{self.severity.name.lower()}{detail}"

    def to_dict(self) -> dict[str, object]:
        """Return the report as a dict that can be encoded as JSON."""
        return {
            "status": self.severity.name.lower(),
            "conditions": [condition.key for condition in self.conditions],
            "reasons": [finding.format_line() for finding in self.findings],
        }
