"""The settings for reviewing due kickouts, and for the delays after objections."""

from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.scoring.rules import Rules


@dataclass(frozen=True, slots=True)
class ObjectionTerms:
    """The durations for which objections delay this reporter's accusations, in seconds.

    After a kickout becomes due, the owner of the node may object for `window` seconds. An
    objection that the automatic check did not decide waits up to `answer` seconds for the
    operator. After the operator declined an objection, objections to later kickouts of the node
    delay nothing for `ignored` seconds.
    """

    window: int
    answer: int
    ignored: int


class KickoutPolicy(NamedTuple):
    """The settings for reviewing kickouts, and for delaying accusations after objections.

    With `holds_kickouts`, the profile of the network holds every kickout until an operator
    approves it. `objection_terms` is None if objections are not indexed; objections never change a
    review.
    """

    rules: Rules
    holds_kickouts: bool = False
    objection_terms: ObjectionTerms | None = None
