"""The evidence behind a kickout: the score pool at the position where it became due."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from oracle.domain.block import Position
from oracle.domain.ids import Hash
from oracle.domain.ledger import KickoutDue, ScoreEntry
from oracle.domain.rules import Rules


@dataclass(frozen=True, slots=True)
class Evidence:
    """A file that anybody can check against the chain; its sha256 goes on chain with the kick."""

    text: str

    @property
    def hash(self) -> Hash:
        return Hash("0x" + hashlib.sha256(self.text.encode()).hexdigest())


def evidence_of(spell: KickoutDue, entries: Sequence[ScoreEntry], rules: Rules) -> Evidence:
    """Write down why the node is to be kicked out (scoring.md 5, decision 10).

    Args:
        spell: since when the predicate has held.
        entries: the node's last `rules.pool_size` scores at the spell's opening, oldest first.
        rules: the rules that scored them.

    Raises:
        ValueError: the entries are not a full pool, belong to another node, or do not lie below
            the threshold: then there is nothing to prove.
    """
    total = sum(entry.score for entry in entries)
    if len(entries) != rules.pool_size or any(entry.node != spell.node for entry in entries):
        raise ValueError(f"the evidence against {spell.node} is not a full pool of its scores")
    if total >= rules.kickout_below * rules.pool_size:
        raise ValueError(f"the scores of {spell.node} sum to {total}: no reason for a kickout")
    content = {
        "due_since": _where(spell.opened_at),
        "entries": [_entry(entry) for entry in entries],
        "kickout_below": str(rules.kickout_below),
        "node": spell.node,
        "rules": rules.name,
        "rules_version": rules.version,
        "sum": total,
    }
    return Evidence(json.dumps(content, sort_keys=True, indent=1) + "\n")


def _entry(entry: ScoreEntry) -> dict[str, object]:
    return {
        "at": _where(entry.at),
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
