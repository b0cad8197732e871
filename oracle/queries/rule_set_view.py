"""The models of a rule set and of a network system."""

from pydantic import Field

from oracle.queries.answers import ApiModel
from oracle.store.state.rule_set_repository import RuleSet


class RuleSetView(ApiModel):
    """A rule set by name and version; the hash of its canonical JSON identifies it."""

    name: str
    version: int | None
    sha256: str


class SystemEntry(ApiModel):
    """A network system with its scoring rules and selection policy."""

    name: str
    version: int
    rules: bool = Field(description="Whether it has a rule set, which scores.")
    policy: str
    source: str
    summary: str
    sha256: str | None = Field(
        description="SHA-256 of its rules; null if it has none or they are incomplete."
    )


def build_rule_set_view(rules: RuleSet) -> RuleSetView:
    """Return the answer for a rule set."""
    return RuleSetView(name=rules.name, version=rules.version, sha256=rules.sha256)
