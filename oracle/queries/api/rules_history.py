"""The rules that score the nodes, the contract's rules changes, and the texts of rules."""

from typing import Literal

from pydantic import Field

from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.rules_changes import (
    RulesChange,
    RulesChanges,
    list_changes_in_force,
)
from oracle.queries.answers import Answer, ApiModel, HashText
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.rules_texts import find_reason, find_rules_text, flatten_rules_text
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.overrides import MEANINGS
from oracle.systems.registry import compute_rule_changes, get_published_rules, get_systems
from oracle.telemetry.safe_text import escape_unprintable


class RuleEntry(ApiModel):
    """A rule with its value in force and its published value."""

    name: str = Field(examples=["tau_seconds"])
    value: str | None = Field(
        examples=["1800"], description="Value of the rule; null if the rule is not set."
    )
    published: str | None = Field(
        description="Value of the rule in the published rule set; null if it is not set there."
    )
    meaning: str


class RulesAnswer(Answer):
    """The rule set that all scores in the index were computed with."""

    name: str
    version: int
    sha256: str = Field(description="SHA-256 of the rule set's canonical JSON.")
    source: str | None = Field(
        description="Document that defines the rule set; null if there is none."
    )
    rules: list[RuleEntry]


def build_rules_answer(snapshot: ApiSnapshot) -> RulesAnswer:
    """Return every value of the rules in effect."""
    rules = snapshot.source.archive.rules
    published_rules = get_published_rules(rules.name)
    system = get_systems().get(rules.name)
    rule_values = {**published_rules, **find_changed_rules(snapshot)}
    return RulesAnswer(
        as_of=snapshot.as_of,
        name=rules.name,
        version=rules.version,
        sha256=identify_rules(rules).sha256,
        source=None if system is None else system.source,
        rules=[
            RuleEntry(
                name=name,
                value=rule_values[name],
                published=published_rules.get(name),
                meaning=MEANINGS[name],
            )
            for name in MEANINGS
            if name in rule_values
        ],
    )


def find_changed_rules(snapshot: ApiSnapshot) -> dict[str, str]:
    """Return the rules whose values in force differ from the published rule set.

    The result maps each rule's name to its value in force.
    """
    return compute_rule_changes(snapshot.source.archive.rules)


class RuleDifference(ApiModel):
    """A single rule, with its values before and after a rules change of the contract."""

    name: str = Field(examples=["tau_seconds"])
    before: str | None = Field(description="Old value of the rule; null if it was not set.")
    after: str | None = Field(description="New value of the rule; null if it is not set any more.")


class RulesChangeView(ApiModel):
    """A rules change of the contract; times are in unix seconds."""

    rules_hash: HashText
    state: Literal["scheduled", "ready", "cancelled", "set"] = Field(
        description=(
            "State of the change. `ready`: the delay has passed, and any account may make the "
            "change."
        )
    )
    is_in_force: bool
    scheduled_block: int | None = Field(
        description=(
            "Block in which the change was scheduled; null if it was made without the timelock."
        )
    )
    scheduled_time: int | None
    ready_at: int | None = Field(
        description=(
            "Earliest time at which the change can be made, in unix seconds; null if it was "
            "made without the timelock."
        )
    )
    operation: HashText | None = Field(
        description=(
            "Operation id of the change in the timelock, with which it can be cancelled; null if "
            "the change was made without the timelock."
        )
    )
    reason_hash: HashText | None = Field(
        description=(
            "Salt of the timelock's operation: the keccak256 of the reason; null if there is no "
            "salt."
        )
    )
    reason: str | None = Field(
        description=(
            "Reason of the change: the text whose keccak256 is `reason_hash`; null if this host "
            "does not have it."
        )
    )
    cancelled_time: int | None
    set_block: int | None = Field(
        description="Block in which the change was made; null if it was not made."
    )
    set_time: int | None
    has_rules: bool = Field(
        description="Whether this host has the rules, so that `/v1/rules/{hash}` returns them."
    )
    differences: list[RuleDifference] | None = Field(
        description=(
            "Rules that differ from the previous rule set; null if there is none, or if this host "
            "does not have the text of both rule sets."
        )
    )


class RulesHistory(Answer):
    """The rules changes of the contract, newest first."""

    in_force: HashText | None = Field(
        description=(
            "Hash of the rules in force; null if there is no contract, or if it is not indexed."
        )
    )
    changes: list[RulesChangeView]


class AnnouncedRules(Answer):
    """The complete text of announced rules."""

    rules_hash: HashText
    rules_id: str = Field(description="The text whose SHA-256 is `rules_hash`.")


def build_rules_history(snapshot: ApiSnapshot) -> RulesHistory:
    """Return all changes of the rules up to the cursor, newest first."""
    changes = snapshot.uow.rounds.get_contract_settings().rules_changes
    effective_changes = list_changes_in_force(changes)
    return RulesHistory(
        as_of=snapshot.as_of,
        in_force=effective_changes[-1].rules_hash if effective_changes else None,
        changes=[_build_view(snapshot, changes, change) for change in reversed(changes)],
    )


def build_announced_rules(snapshot: ApiSnapshot, rules_hash: Hash) -> AnnouncedRules:
    """Return the text of the rules with this hash.

    Raises:
        NotFoundError: this host does not have the text.
    """
    text = _find_rules_text(snapshot, rules_hash)
    if text is None:
        raise NotFoundError(f"rules {rules_hash} were not published on this host")
    return AnnouncedRules(as_of=snapshot.as_of, rules_hash=rules_hash, rules_id=text)


def _build_view(
    snapshot: ApiSnapshot, changes: RulesChanges, change: RulesChange
) -> RulesChangeView:
    scheduled, set_event, cancelled = change.scheduled, change.set_by, change.cancelled
    in_force = list_changes_in_force(changes)
    replaced_change = _find_replaced_change(changes, change)
    salt = None if change.salt == ZERO_HASH else change.salt
    text = _find_rules_text(snapshot, change.rules_hash)
    return RulesChangeView(
        rules_hash=change.rules_hash,
        state=change.get_state(snapshot.cursor.time).value,
        is_in_force=bool(in_force) and in_force[-1] is change,
        scheduled_block=None if scheduled is None else scheduled.at.block,
        scheduled_time=None if scheduled is None else scheduled.time,
        ready_at=None if scheduled is None else scheduled.ready_at,
        operation=None if scheduled is None else scheduled.operation,
        reason_hash=salt,
        reason=None if salt is None else _find_change_reason(snapshot, salt),
        cancelled_time=None if cancelled is None else cancelled.time,
        set_block=None if set_event is None else set_event.at.block,
        set_time=None if set_event is None else set_event.time,
        has_rules=text is not None,
        differences=None
        if text is None or replaced_change is None
        else _find_rule_differences(_find_rules_text(snapshot, replaced_change.rules_hash), text),
    )


def _find_change_reason(snapshot: ApiSnapshot, salt: Hash) -> str | None:
    reason_text = find_reason(salt, snapshot.source.announced_folder)
    return None if reason_text is None else escape_unprintable(" ".join(reason_text.split()))


def _find_replaced_change(changes: RulesChanges, change: RulesChange) -> RulesChange | None:
    """Return the change whose rules `change` replaced, or will replace if it is pending."""
    effective_changes = list_changes_in_force(changes)
    if change.is_pending:
        return effective_changes[-1] if effective_changes else None
    replacing_event = change.set_by or change.scheduled
    earlier_changes = [
        candidate
        for candidate in effective_changes
        if replacing_event is not None
        and candidate.set_by is not None
        and candidate.set_by.at < replacing_event.at
    ]
    return earlier_changes[-1] if earlier_changes else None


def _find_rule_differences(old_text: str | None, new_text: str) -> list[RuleDifference] | None:
    if old_text is None:
        return None
    old_rules = flatten_rules_text(old_text)
    new_rules = flatten_rules_text(new_text)
    return [
        RuleDifference(name=name, before=old_rules.get(name), after=new_rules.get(name))
        for name in [*old_rules, *(name for name in new_rules if name not in old_rules)]
        if old_rules.get(name) != new_rules.get(name)
    ]


def _find_rules_text(snapshot: ApiSnapshot, rules_hash: str) -> str | None:
    source = snapshot.source
    return find_rules_text(Hash(rules_hash), source.rules_id, source.announced_folder)
