"""What legacy rules say of nodes and tasks, in the words of the source, as JSON.

See docs/explanation/legacy.md#scores.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from oracle.domain.events.jsonl_fields import wire_int
from oracle.domain.fixed_point import decimal_text
from oracle.domain.fold.legacy_round_scores import RoundScores, round_scores
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.legacy_factors import Factors, incentive_shares, peers_at
from oracle.domain.scoring.legacy_tally import WindowTally, tally_at
from oracle.domain.scoring.node_scores import factors_of
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Run


def compared(nodes: Iterable[Node], time: int, rules: Rules) -> Mapping[Address, dict[str, Any]]:
    """Return what is said of each node among its peers as of a block time; none but under legacy.

    R, P, B, Q and the incentive share are null for a node that is no member.
    """
    if rules.legacy is None:
        return {}
    everybody = list(nodes)
    peers = peers_at(everybody, time, rules)
    shares = incentive_shares(everybody, time, rules)
    said = {}
    for node in everybody:
        tally = tally_at(node, time, rules.legacy)
        is_member = node.membership is Membership.MEMBER
        found = factors_of(node, time, rules, peers) if is_member else None
        said[node.address] = {
            **tally_answer(tally),
            **factors_answer(found),
            "incentive_share": share_answer(shares.get(node.address)),
        }
    return said


def tally_answer(tally: WindowTally) -> dict[str, Any]:
    """Return a node's window: its number, tasks, their mean (0 to 20), seconds as a member."""
    return {
        "window": wire_int(tally.window),
        "tasks": tally.tasks,
        "node_score": share_answer(tally.node_score),
        "online_seconds": wire_int(tally.online_seconds),
    }


def factors_answer(found: Factors | None) -> dict[str, str | None]:
    """Return R, P, B and Q by the letters that the source gives them."""
    if found is None:
        return dict.fromkeys("RPBQ")
    return {
        "R": decimal_text(found.size),
        "P": decimal_text(found.promptness),
        "B": share_answer(found.speed),
        "Q": decimal_text(found.combined),
    }


def rounds_answer(task: TaskKey, runs: Sequence[Run], rules: Rules) -> dict[str, Any]:
    """Return both rounds of a task that has ended; `scored` false: nobody submitted anything.

    Args:
        task: the task, or one of those of a group.
        runs: its parts, or those of its group.
        rules: legacy rules.
    """
    scores = round_scores(runs, rules)
    parts = zip_longest(runs, scores)
    return {
        "task": task,
        "nodes": [_part(run, scored) for run, scored in parts],
        "scored": bool(scores),
    }


def _part(run: Run, scored: RoundScores | None) -> dict[str, Any]:
    silent = {"rank": None, "score": None}
    return {
        "node": run.node,
        "round": run.round,
        "commitment": silent
        if scored is None
        else {"rank": scored.commitment_rank, "score": scored.commitment_score},
        "disclosure": silent
        if scored is None
        else {"rank": scored.disclosure_rank, "score": scored.disclosure_score},
        "score": None if scored is None else scored.task_score,
    }


def share_answer(value: int | None) -> str | None:
    """Return a fraction in units of 10^-18 as decimal text; null where there is none."""
    return None if value is None else decimal_text(value)
