"""The sections `[oracle]`, `[hot_set]` and `[objections]`, and values built from them."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from oracle.daemon.config.sections import ContractAddress, Section
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_policy import ObjectionTerms
from oracle.domain.reports.lanes import compute_kickout_line_steps
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.sanity_limits import SanityLimits
from oracle.domain.reports.submission_policy import SubmissionPolicy
from oracle.domain.scoring.rules import Rules


class OracleSection(Section):
    # The address of the oracle contract. Without this setting, the daemon sends no reports.
    address: ContractAddress | None = None
    # The address of the timelock that is the admin of the oracle contract, so that the daemon
    # detects rule changes when they are scheduled. Without this setting, the daemon detects a
    # change only after it has taken effect.
    timelock: ContractAddress | None = None
    # Whether transactions are sent; overridden by `run --publish` and `--dry-run`.
    publish: bool = False
    # The block on which a report may be based: `soft` (2 blocks below the head) or the chain's
    # `safe` block.
    level: Literal["soft", "safe"] = "soft"
    # The length of a period in seconds of block time; one report is cut for each period. You
    # cannot change it for an existing database. Part of the rules hash.
    period_seconds: int = Field(default=60, ge=1)
    # The longest time between two rounds, in seconds. Part of the rules hash.
    heartbeat_seconds: int = Field(default=3600, ge=1)
    # The change of a score that triggers a report, in 1/10,000 of QoS. Part of the rules hash.
    deviation: int = Field(default=100, ge=1, le=10_000)
    # Seconds after its as-of block during which a report is accepted. Part of the rules hash.
    report_ttl_seconds: int = Field(default=600, ge=1, le=3600)
    # The number of blocks for which the contract checks block hashes, as set at its deployment.
    anchor_window: int = Field(default=200, ge=2, le=8191)
    # Whether a report that makes a kickout due is signed only after the blocks behind the kickout
    # were verified as far as the chain allows. Part of the rules hash.
    kickouts_require_proof: bool = True
    # The folder for the evidence of kickouts.
    evidence_folder: Path = Path("evidence")
    # The fee per gas, in wei, up to which an ordinary update is sent at once. This limit grows
    # with the age of the last round and reaches `limits.max_fee_per_gas_wei` at the heartbeat. By
    # default it equals `limits.max_fee_per_gas_wei`. A node that crosses a band never waits.
    cheap_fee_wei: int | None = Field(default=None, ge=1)
    # Ordinary updates of fewer nodes wait for the heartbeat.
    min_nodes: int = Field(default=1, ge=1)
    # Ordinary updates of fewer nodes than `oracle.min_nodes` are still sent if the sum of their
    # changes is at least this value, in 1/10,000 of QoS.
    min_change: int | None = Field(default=None, ge=1)
    # A report is held if a larger share of the members would change by more than
    # `sanity_changed_by`; `report release` releases it.
    sanity_changed_share: float = Field(default=0.5, ge=0, le=1)
    # The change that `oracle.sanity_changed_share` counts, in 1/10,000 of QoS.
    sanity_changed_by: int = Field(default=2500, ge=0, le=10_000)
    # A report is held if a larger share of the members would newly fall below the kickout
    # threshold or become unselectable.
    sanity_kick_share: float = Field(default=0.25, ge=0, le=1)
    # A report is held if the numbers of tasks that ended in its period, and of their nodes, are
    # below this share of the usual numbers, and the blocks are not proven; 0 disables this check.
    sanity_events_share: float = Field(default=0.5, ge=0, le=1)
    # The number of earlier periods over which the medians of the usual numbers are computed.
    sanity_periods: int = Field(default=30, ge=5, le=1000)
    # Reports of networks with fewer members are never held.
    sanity_min_members: int = Field(default=20, ge=1)

    @property
    def submission_policy(self) -> SubmissionPolicy:
        """The policy that decides whether a report is worth its gas."""
        return SubmissionPolicy(self.cheap_fee_wei, self.min_nodes, self.min_change)

    @property
    def sanity_limits(self) -> SanityLimits:
        """The limits beyond which a report waits for the operator's decision."""
        return SanityLimits(
            changed_share=self.sanity_changed_share,
            changed_by=self.sanity_changed_by,
            kick_share=self.sanity_kick_share,
            events_share=self.sanity_events_share,
            periods=self.sanity_periods,
            min_members=self.sanity_min_members,
        )


class HotSetSection(Section):
    # The address of a `QoSWords` contract of `oracle.address`, in which the transmitter keeps the
    # scores of all nodes up to date after each round. Without it, no scores are written.
    address: ContractAddress | None = None
    # The highest fee per gas, in wei, at which words are written and nodes are bound; while fees
    # are higher, consumers read older scores. By default it equals `limits.max_fee_per_gas_wei`.
    max_fee_wei: int | None = Field(default=None, ge=1)


class ObjectionsSection(Section):
    # The address of an `Objections` contract of `oracle.address`. Without it, objections are not
    # indexed, and the daemon does not wait for objections before it accuses a node.
    address: ContractAddress | None = None
    # Seconds from the time at which a kickout becomes due, in which the owner of the node may
    # object before this reporter accuses the node; 0 disables the wait.
    window_seconds: int = Field(default=7200, ge=0, le=86_400)
    # The maximum seconds for which this reporter waits for your answer to an objection that no
    # check decided, before it accuses the node.
    answer_seconds: int = Field(default=21_600, ge=0, le=259_200)
    # After a kickout whose objection you declined, objections to later kickouts of the same node
    # cause no delay for this many seconds.
    ignored_seconds: int = Field(default=2_592_000, ge=0)

    # Whether this reporter accepts signed objections at `POST /v1/objections` of its read API, and
    # its transmitter pays for the transactions that submit them.
    accept_posts: bool = False
    # The maximum number of objections accepted in an hour, for all nodes together.
    posts_per_hour: int = Field(default=30, ge=1, le=1000)
    # The maximum gas of the objections accepted in 24 hours; 70,000 are reserved for each of them,
    # and at least 170,000 if the node is a contract.
    daily_gas: int = Field(default=5_000_000, ge=70_000)

    @property
    def intake_address(self) -> Address | None:
        """The contract that receives posted objections, or None if posts are not accepted."""
        return Address(self.address) if self.accept_posts and self.address else None

    @property
    def terms(self) -> ObjectionTerms | None:
        """How long objections delay accusations, or None if objections are not indexed."""
        if self.address is None:
            return None
        return ObjectionTerms(self.window_seconds, self.answer_seconds, self.ignored_seconds)


def find_objection_faults(section: ObjectionsSection, *, has_payer: bool) -> list[str]:
    """Return a message for each missing setting that posted objections require."""
    if not section.accept_posts:
        return []
    required_settings = {
        "objections.address": section.address is not None,
        "a transmitter key in [keys], which pays for them": has_payer,
    }
    return [
        f"objections.accept_posts: requires {requirement}"
        for requirement, is_met in required_settings.items()
        if not is_met
    ]


def build_report_settings(oracle_section: OracleSection, rules: Rules) -> ReportSettings:
    """Build the settings of reports, with the rules' kickout threshold as a QoS."""
    return ReportSettings(
        period_seconds=oracle_section.period_seconds,
        heartbeat_seconds=oracle_section.heartbeat_seconds,
        deviation=oracle_section.deviation,
        ttl_seconds=oracle_section.report_ttl_seconds,
        kick_below=compute_kickout_line_steps(rules),
        requires_proof=oracle_section.kickouts_require_proof,
    )
