"""The evidence for a kickout: the node's score pool when the kickout became due.

The evidence names the creators of the scored tasks, because a single creator could have fabricated
the tasks (docs/explanation/kickouts.md#held-for-a-person).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.node_scores import is_below_kickout_threshold
from oracle.domain.scoring.rules import Rules

# The version of the scoring formula (docs/reference/scoring-rules.md). Increment it with any
# change that affects scores.
FORMULA_VERSION = 2
# A creator's scores are decisive if the mean of all other scores is at least 5/4 of the kickout
# line. The line itself would be too low, because an interval opens just below it. Without the
# scores of almost any creator, the mean would reach the line.
_CLEARLY_ABOVE = 5, 4


class CreatorSpread(NamedTuple):
    """The distribution of a node's scores over the creators of its tasks.

    `scores` and `creators` are the numbers of scores and creators. `max_per_creator` is the
    largest number of scores from one creator. `decisive_scores` is the number of scores from a
    creator without whom the mean would be clearly above the kickout line, or 0 if there is no such
    creator.
    """

    scores: int
    creators: int
    max_per_creator: int
    decisive_scores: int

    def find_hold_reason(self, rules: Rules) -> str | None:
        """Return why the kickout must wait for the vetoer, or None if it need not.

        See docs/explanation/kickouts.md#held-for-a-person.
        """
        if rules.kick_creator_share >= UNIT:
            return None
        if self.max_per_creator * UNIT > rules.kick_creator_share * self.scores:
            creator_note = (
                "there is no other creator"
                if self.creators == 1
                else f"of {self.creators} creators"
            )
            return (
                f"{self.max_per_creator} of its {self.scores} scores come from one creator's "
                f"tasks ({creator_note})"
            )
        if self.decisive_scores:
            return (
                f"it would be far from due without the {self.decisive_scores} scores from one "
                "creator's tasks"
            )
        return None


def find_derived_zeros_hold_reason(entries: Sequence[ScoreEntry], rules: Rules) -> str | None:
    """Return a hold reason if only derived zero scores make the kickout due, else None.

    Derived scores alone do not justify an automatic kickout, so the check replaces each derived
    zero by the best score.
    """
    derived_count = sum(entry.is_derived for entry in entries)
    score_sum = sum(entry.score for entry in entries) + derived_count * rules.q_max
    if not derived_count or is_below_kickout_threshold(score_sum, rules):
        return None
    return f"{derived_count} of its {len(entries)} scores are zeros derived for timed-out members"


def find_incident_hold_reason(
    score_count: int, incident_score_count: int, rules: Rules
) -> str | None:
    """Return a hold reason if too many of the scores are zeros in incidents.

    Otherwise, the result is None. `score_count` is the number of scores that count, and
    `incident_score_count` is how many of them are in incidents (`count_incident_scores`).
    """
    if incident_score_count * UNIT <= rules.kick_incident_share * score_count:
        return None
    return f"{incident_score_count} of its {score_count} scores are timeouts in incidents"


def compute_creator_spread(
    scores: Iterable[tuple[Address | None, int]], rules: Rules
) -> CreatorSpread:
    """Compute how scores are distributed over creators, from (creator, score) pairs.

    Tasks of unknown creators (None) count as tasks of one creator, so that a creator cannot hide
    by omitting its name.
    """
    count_by_creator = Counter[Address | None]()
    sum_by_creator = Counter[Address | None]()
    for creator, score in scores:
        count_by_creator[creator] += 1
        sum_by_creator[creator] += score
    count = count_by_creator.total()
    total = sum_by_creator.total()
    decisive_counts = (
        own_count
        for creator, own_count in count_by_creator.items()
        if own_count < count
        and _is_clearly_above_threshold(total - sum_by_creator[creator], count - own_count, rules)
    )
    max_count = max(count_by_creator.values(), default=0)
    return CreatorSpread(count, len(count_by_creator), max_count, max(decisive_counts, default=0))


class EvidenceSubject(NamedTuple):
    """The chain, the oracle contract and the node of an evidence file.

    `account_id` is the CAIP-10 id of the node, and `oracle_account_id` that of the contract, as in
    proofs. A value is None if the database has no chain or no contract.
    """

    chain_id: int | None
    contract: Address | None
    account_id: str | None
    oracle_account_id: str | None


def build_kickout_evidence(
    interval: KickoutDue,
    entries: Sequence[ScoreEntry],
    rules: Rules,
    *,
    subject: EvidenceSubject,
    creators: Mapping[TaskKey, Address],
    incident_score_count: int,
) -> str:
    """Build the evidence file of a kickout, which anyone can check against the chain.

    Nothing on chain depends on the file. Every reporter writes the same bytes, because the content
    depends only on the chain and the rules. See docs/reference/scoring-rules.md#qos-and-kickout,
    docs/explanation/kickouts.md#lifecycle.

    Args:
        interval: the interval in which the kickout is due.
        entries: the node's last `rules.pool_size` scores when the interval opened, oldest first;
            under legacy rules, the scores of the window.
        rules: the rules that scored the entries.
        subject: the chain, the oracle contract and the node's account id.
        creators: the creators of the scored tasks, as far as events named them before the interval
            opened.
        incident_score_count: the number of scores in incidents, which the evidence states if the
            rules may hold a kickout for them.

    Raises:
        ValueError: the entries are not a full pool, belong to another node, or are not low enough
            for a kickout.
    """
    score_sum = sum(entry.score for entry in entries)
    size = len(entries) if rules.legacy is not None else rules.pool_size
    if len(entries) != size or any(entry.node != interval.node for entry in entries):
        raise ValueError(f"{interval.node}: expected exactly {size} scores, all of this node")
    if not justifies_kickout(entries, rules):
        raise ValueError(
            f"{interval.node}: scores with a sum of {score_sum} do not justify a kickout"
        )
    creator_spread = compute_creator_spread(
        ((creators.get(entry.task), entry.score) for entry in entries), rules
    )
    content: dict[str, object] = {
        **subject._asdict(),
        "creators": creator_spread.creators,
        "decisive_of_one_creator": creator_spread.decisive_scores,
        "due_since": _position_to_dict(interval.opened_at),
        "entries": [_score_entry_to_dict(entry, creators) for entry in entries],
        "formula_version": FORMULA_VERSION,
        "kickout_below": format_decimal(_get_kickout_threshold(rules)),
        "most_of_one_creator": creator_spread.max_per_creator,
        "node": interval.node,
        "rules": rules.name,
        "rules_sha256": hashlib.sha256(rules.to_json().encode()).hexdigest(),
        "rules_version": rules.version,
        "sum": score_sum,
    }
    if rules.kick_incident_share < UNIT:
        content["scores_in_incidents"] = incident_score_count
    return json.dumps(content, sort_keys=True, indent=1) + "\n"


def justifies_kickout(entries: Sequence[ScoreEntry], rules: Rules) -> bool:
    """Return whether there are enough scores, with a low enough mean, for a kickout."""
    min_count = rules.pool_size if rules.legacy is None else rules.legacy.kickout_tasks
    score_sum = sum(entry.score for entry in entries)
    return len(entries) >= min_count and score_sum * UNIT < _get_kickout_threshold(rules) * len(
        entries
    )


def _is_clearly_above_threshold(total: int, count: int, rules: Rules) -> bool:
    numerator, denominator = _CLEARLY_ABOVE
    return total * UNIT * denominator >= _get_kickout_threshold(rules) * count * numerator


def _get_kickout_threshold(rules: Rules) -> int:
    return (rules if rules.legacy is None else rules.legacy).kickout_below


def _score_entry_to_dict(
    entry: ScoreEntry, creators: Mapping[TaskKey, Address]
) -> dict[str, object]:
    return {
        "at": _position_to_dict(entry.at),
        "creator": creators.get(entry.task),
        "elapsed": entry.elapsed,
        "group": entry.group,
        "rank": entry.rank,
        "score": entry.score,
        "seq": entry.seq,
        "task": entry.task,
        "time": entry.time,
    }


def _position_to_dict(position: Position) -> dict[str, int]:
    return {"block": position.block, "tx": position.tx, "log": position.log, "sub": position.sub}
