"""Names the events that lowered a node's reliability by their causes."""

from collections import Counter
from collections.abc import Iterable

from oracle.domain.scoring.reliability import CAUSES, ReliabilityCause, list_decrease_causes
from oracle.domain.scoring.rules import Rules
from oracle.queries.text.human_numbers import format_count, format_enumeration


def name_decrease_causes(rules: Rules, causes: Iterable[ReliabilityCause] = ()) -> str:
    """Return the causes as plural nouns, such as `timeouts`.

    Without causes, the result names all causes that lower H under the rules.
    """
    distinct_causes = dict.fromkeys(causes) or list_decrease_causes(rules)
    if not distinct_causes:
        return "no event"
    return format_enumeration([f"{CAUSES[cause].noun}s" for cause in distinct_causes])


def format_decrease_counts(causes: Iterable[ReliabilityCause]) -> str:
    """Format the number of events of each cause, such as `two timeouts`."""
    count_by_cause = Counter(causes)
    return format_enumeration([
        format_count(count, CAUSES[cause].noun) for cause, count in count_by_cause.items()
    ])  # fmt: skip
