"""Whose tasks the scores behind a kickout come from: one creator alone could have made them up.

See docs/explanation/kickouts.md#held-for-a-person.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules


class CreatorSpread(NamedTuple):
    """Of `scores` scores, whose tasks are of `creators` creators, `most` are of one creator's."""

    scores: int
    creators: int
    most: int

    def why_held(self, rules: Rules) -> str | None:
        """Say why a kickout on these scores is a person's to propose; None: it is not."""
        if self.most * UNIT <= rules.kick_creator_share * self.scores:
            return None
        others = "no other has any" if self.creators == 1 else f"of {self.creators} creators"
        return f"{self.most} of its {self.scores} scores come from one creator's tasks ({others})"


def spread_of(creators: Iterable[Address | None]) -> CreatorSpread:
    """Count the creators behind some scores, one of each score.

    Tasks whose creator no event named (None) count as those of one creator: whoever orders them
    must not be able to hide behind that.
    """
    counted = Counter(creators)
    return CreatorSpread(counted.total(), len(counted), max(counted.values(), default=0))
