"""The rules by which nodes are scored, with the value, the meaning and the source of each."""

from pydantic import Field

from oracle.queries.answers import Answer, ApiModel
from oracle.queries.api.source import ApiSnapshot
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.overrides import MEANINGS
from oracle.systems.registry import compute_rule_changes, get_published_rules, get_systems


class RuleEntry(ApiModel):
    """One rule, with its value in force and its published value."""

    name: str = Field(examples=["tau_seconds"])
    value: str | None = Field(examples=["1800"], description="null if not set.")
    published: str | None = Field(description="Value in the published rule set.")
    meaning: str


class RulesAnswer(Answer):
    """The rule set by which all scores in the index were computed."""

    name: str
    version: int
    sha256: str = Field(description="SHA-256 of its canonical JSON.")
    source: str | None = Field(description="The document that defines it.")
    rules: list[RuleEntry]


def build_rules_answer(snapshot: ApiSnapshot) -> RulesAnswer:
    """Return every value of the rules in effect."""
    rules = snapshot.source.archive.rules
    published = get_published_rules(rules.name)
    system = get_systems().get(rules.name)
    values = {**published, **find_changed_rules(snapshot)}
    return RulesAnswer(
        as_of=snapshot.as_of,
        name=rules.name,
        version=rules.version,
        sha256=identify_rules(rules).sha256,
        source=None if system is None else system.source,
        rules=[
            RuleEntry(
                name=name,
                value=values[name],
                published=published.get(name),
                meaning=MEANINGS[name],
            )
            for name in MEANINGS
            if name in values
        ],
    )


def find_changed_rules(snapshot: ApiSnapshot) -> dict[str, str]:
    """Return the values in force that differ from the published rule set, by rule name."""
    return compute_rule_changes(snapshot.source.archive.rules)
