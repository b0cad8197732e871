"""The evidence behind a kickout: the score pool at the position where it became due.

And whose tasks its scores come from: one creator alone could have made them up
(docs/explanation/kickouts.md#held-for-a-person).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT, decimal_text
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.domain.reports.low_rounds import Shown
from oracle.domain.scoring.node_scores import is_below_line
from oracle.domain.scoring.rules import Rules

# The arithmetic behind a score (docs/reference/scoring-rules.md); raised with whatever changes a
# score.
FORMULA_VERSION = 2
# Scores are decisive where the mean of the others is this much of the line or more: an interval
# opens just below the line, where leaving out almost anybody's scores lifts it a little.
_CLEARLY_ABOVE = 5, 4


class CreatorSpread(NamedTuple):
    """Of `scores` scores, whose tasks are of `creators` creators, `most` are of one creator's.

    `decisive`: scores of one creator's tasks without which the mean of the others is clearly
    above the kickout line; 0: there is no such creator.
    """

    scores: int
    creators: int
    most: int
    decisive: int

    def hold_reason(self, rules: Rules) -> str | None:
        """Say why a kickout on these scores is a person's to propose; None: it is not.

        See docs/explanation/kickouts.md#held-for-a-person.
        """
        if rules.kick_creator_share >= UNIT:
            return None
        if self.most * UNIT > rules.kick_creator_share * self.scores:
            others = "no other has any" if self.creators == 1 else f"of {self.creators} creators"
            return (
                f"{self.most} of its {self.scores} scores come from one creator's tasks ({others})"
            )
        if self.decisive:
            return (
                f"it would be far from due without the {self.decisive} scores that come from one "
                "creator's tasks"
            )
        return None


def derived_zeros_reason(entries: Sequence[ScoreEntry], rules: Rules) -> str | None:
    """Return why a kickout rests on zeros that no source says; None: it is due without them.

    In their place the best score is assumed: a stake is not taken on a conclusion alone.
    """
    derived = sum(entry.is_derived for entry in entries)
    total = sum(entry.score for entry in entries) + derived * rules.q_max
    if not derived or is_below_line(total, rules):
        return None
    return f"{derived} of its {len(entries)} scores are zeros derived for timed-out members"


def spread_of(scores: Iterable[tuple[Address | None, int]], rules: Rules) -> CreatorSpread:
    """Count the creators behind some scores, each a creator and the score of his task.

    Tasks whose creator no event named (None) count as those of one creator: whoever orders them
    must not be able to hide behind that.
    """
    counted, sums = Counter[Address | None](), Counter[Address | None]()
    for creator, score in scores:
        counted[creator] += 1
        sums[creator] += score
    count, total = counted.total(), sums.total()
    decisive = (
        own
        for creator, own in counted.items()
        if own < count and _is_clearly_above(total - sums[creator], count - own, rules)
    )
    most = max(counted.values(), default=0)
    return CreatorSpread(count, len(counted), most, max(decisive, default=0))


@dataclass(frozen=True, slots=True)
class KickoutEvidence:
    """A file that anybody can check against the chain; its sha256 goes on chain with the kick.

    `spread`: how many creators its scores come from, as the file says too.
    """

    text: str
    spread: CreatorSpread

    @property
    def hash(self) -> Hash:
        return Hash("0x" + hashlib.sha256(self.text.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Accused:
    """Whose kickout it is, and where: the lane `index` of a contract on a chain.

    `rounds` showed the lane under the line, which is `kick_below` steps of QoS. `creators`: who
    ordered the tasks of its scores, where an event up to the interval's opening named him.
    """

    chain_id: int | None
    contract: Address | None
    index: int | None
    rounds: tuple[Shown, ...]
    kick_below: int
    creators: Mapping[TaskKey, Address]


def evidence_of(
    interval: KickoutDue, entries: Sequence[ScoreEntry], rules: Rules, accused: Accused
) -> KickoutEvidence:
    """Write down why the node is to be kicked out.

    Every reporter writes the same bytes: nothing is in it but what the chain and the rules say.
    See docs/reference/scoring-rules.md#qos-and-kickout, docs/explanation/kickouts.md#lifecycle.

    Args:
        interval: since when the predicate has held.
        entries: the node's last `rules.pool_size` scores at the interval's opening, oldest first;
            under legacy rules those of the window.
        rules: the rules that scored them.
        accused: its lane, and the rounds that showed it low.

    Raises:
        ValueError: the entries are not a full pool, belong to another node, or do not lie below
            the threshold: then there is nothing to prove.
    """
    total = sum(entry.score for entry in entries)
    size = len(entries) if rules.legacy is not None else rules.pool_size
    if len(entries) != size or any(entry.node != interval.node for entry in entries):
        raise ValueError(f"the evidence against {interval.node} is not a full pool of its scores")
    if not _is_reason(total, size, rules):
        raise ValueError(f"the scores of {interval.node} sum to {total}: no reason for a kickout")
    spread = spread_of(
        ((accused.creators.get(entry.task), entry.score) for entry in entries), rules
    )
    content = {
        "chain_id": accused.chain_id,
        "contract": accused.contract,
        "creators": spread.creators,
        "decisive_of_one_creator": spread.decisive,
        "due_since": _where(interval.opened_at),
        "entries": [_entry(entry, accused) for entry in entries],
        "formula_version": FORMULA_VERSION,
        "index": accused.index,
        "kick_below": accused.kick_below,
        "kickout_below": decimal_text(_kickout_line(rules)),
        "most_of_one_creator": spread.most,
        "node": interval.node,
        "rounds": [one._asdict() for one in accused.rounds],
        "rules": rules.name,
        "rules_sha256": hashlib.sha256(rules.to_json().encode()).hexdigest(),
        "rules_version": rules.version,
        "sum": total,
    }
    return KickoutEvidence(json.dumps(content, sort_keys=True, indent=1) + "\n", spread)


def _is_reason(total: int, count: int, rules: Rules) -> bool:
    """Tell whether these scores are enough for a kickout."""
    legacy = rules.legacy
    enough = legacy is None or count >= legacy.kickout_tasks
    return enough and total * UNIT < _kickout_line(rules) * count


def _is_clearly_above(total: int, count: int, rules: Rules) -> bool:
    parts, whole = _CLEARLY_ABOVE
    return total * UNIT * whole >= _kickout_line(rules) * count * parts


def _kickout_line(rules: Rules) -> int:
    return (rules if rules.legacy is None else rules.legacy).kickout_below


def _entry(entry: ScoreEntry, accused: Accused) -> dict[str, object]:
    return {
        "at": _where(entry.at),
        "creator": accused.creators.get(entry.task),
        "elapsed": entry.elapsed,
        "group": entry.group,
        "rank": entry.rank,
        "score": entry.score,
        "seq": entry.seq,
        "task": entry.task,
        "time": entry.time,
    }


def _where(at: Position) -> dict[str, int]:
    return {"block": at.block, "tx": at.tx, "log": at.log, "sub": at.sub}
