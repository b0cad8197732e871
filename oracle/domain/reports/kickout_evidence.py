"""The evidence behind a kickout: the score pool at the position where it became due.

It includes the creators of the scored tasks, because one creator alone could have fabricated them
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

# Version of the scoring formula (docs/reference/scoring-rules.md); raise it with any change of
# scores.
FORMULA_VERSION = 2
# Scores are decisive if the mean of the others is at least this fraction of the line: an interval
# opens just below the line, where leaving out the scores of almost any creator lifts it a little.
_CLEARLY_ABOVE = 5, 4


class CreatorSpread(NamedTuple):
    """The distribution of `scores` scores over `creators` creators; `max_per_creator` share one.

    `decisive_scores`: scores of one creator's tasks without which the mean of the others is
    clearly above the kickout line; 0: there is no such creator.
    """

    scores: int
    creators: int
    most: int
    decisive: int

    def hold_reason(self, rules: Rules) -> str | None:
        """Return why an operator must propose a kickout on these scores, or None if none must.

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
    """Return why a kickout depends on derived zeros, or None if it is due without them.

    The best score is assumed in their place: a stake is not taken on a conclusion alone.
    """
    derived = sum(entry.is_derived for entry in entries)
    total = sum(entry.score for entry in entries) + derived * rules.q_max
    if not derived or is_below_line(total, rules):
        return None
    return f"{derived} of its {len(entries)} scores are zeros derived for timed-out members"


def spread_of(scores: Iterable[tuple[Address | None, int]], rules: Rules) -> CreatorSpread:
    """Count the creators behind some scores, each given as a creator and a score.

    Tasks of unknown creators (None) count as those of one creator, so that a creator cannot hide
    by omitting its name.
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
    """A file that anyone can check against the chain; its sha256 goes on-chain with the kick.

    `spread`: the distribution of its scores over creators, as in the file.
    """

    text: str
    spread: CreatorSpread

    @property
    def hash(self) -> Hash:
        return Hash("0x" + hashlib.sha256(self.text.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Accused:
    """The context of a kickout: the lane `index` of the node, in a contract on a chain.

    `observations` are the rounds that showed the lane under the line, which is `kick_below` steps
    of QoS. `creators`: the creators of the scored tasks, if an event up to the interval's opening
    named them.
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
    """Return the evidence why the node is to be kicked out.

    Every reporter writes the same bytes, because the content depends on the chain and the rules
    only. See docs/reference/scoring-rules.md#qos-and-kickout,
    docs/explanation/kickouts.md#lifecycle.

    Args:
        interval: since when the predicate has held.
        entries: the node's last `rules.pool_size` scores at the interval's opening, oldest first;
            under legacy rules those of the window.
        rules: the rules that scored them.
        context: the node's lane, and the rounds that showed it low.

    Raises:
        ValueError: the entries are not a full pool, belong to another node, or are not below the
            threshold, so that there is nothing to prove.
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
    """Return whether these scores are enough for a kickout."""
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
