"""Which rules folded or scored something."""

from oracle.queries.answers import ApiModel
from oracle.store.state.rule_set_repository import RuleSet


class RuleSetView(ApiModel):
    """A rule set by name and version; the hash of its canonical JSON tells it for sure."""

    name: str
    version: int | None
    sha256: str


def rule_set_view(rules: RuleSet) -> RuleSetView:
    """Return the answer about a rule set."""
    return RuleSetView(name=rules.name, version=rules.version, sha256=rules.sha256)
