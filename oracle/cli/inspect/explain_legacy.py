"""Text of `explain` for legacy rules: the rounds of the window, R, P, B and Q."""

from collections.abc import Iterator

from oracle.domain.fixed_point import decimal_text
from oracle.domain.fold.legacy_round_scores import round_scores
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.scoring.legacy_factors import Factors
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.legacy_tally import WindowTally, start_of
from oracle.domain.state.node import Membership
from oracle.queries.explain import Explanation
from oracle.queries.text.status_text import shown_time


def window_lines(told: Explanation, legacy: LegacyRules) -> Iterator[str]:
    """Yield every task of the current window and the factors relative to the node's peers."""
    found = told.figures.factors
    if found is None:
        return
    begun = shown_time(start_of(found.tally.window, legacy))
    yield f"Task scores in the window that began {begun}: {found.tally.tasks}"
    yield from _task_lines(told)
    yield _mean_line(found.tally)
    yield f"Member in this window for {found.tally.online_seconds} s"
    if told.node.membership is Membership.MEMBER:
        yield ""
        yield from _factor_lines(told, found, legacy)


def _task_lines(told: Explanation) -> Iterator[str]:
    for entry in told.scores:
        yield f"  #{entry.seq} score {entry.score} at block {entry.at.block}"
        yield f"     task {entry.task}{_rounds(told, entry)}"
        yield from earning_lines(told, entry)
        where = told.transactions.get(entry.at, "unknown")
        yield f"     transaction {where}, log {entry.at.log}"


def earning_lines(told: Explanation, entry: ScoreEntry) -> Iterator[str]:
    """Yield the earnings of the node from the task of a score."""
    earning = told.earning(entry)
    if earning is not None:
        yield f"     {earning.text()}"


def _rounds(told: Explanation, entry: ScoreEntry) -> str:
    """Return the node's rank in both rounds; one open submission counts for both."""
    runs = told.rounds_of(entry)
    if not runs and entry.rank is not None:
        return f": place {entry.rank} in both rounds, {entry.elapsed} s"
    scores = round_scores(runs, told.rules)
    for run, scored in zip(runs, scores, strict=False):
        if run.node == told.node.address:
            first = _place(scored.commitment_rank, scored.commitment_score)
            second = _place(scored.disclosure_rank, scored.disclosure_score)
            return f": commitment {first}, disclosure {second}"
    return ""


def _place(rank: int | None, score: int) -> str:
    return f"silent ({score})" if rank is None else f"rank {rank} ({score})"


def _mean_line(tally: WindowTally) -> str:
    if tally.node_score is None:
        return "Node score: none, no task has ended in this window"
    return f"Node score = {tally.total} / {tally.tasks} = {decimal_text(tally.node_score)}"


def _factor_lines(told: Explanation, found: Factors, legacy: LegacyRules) -> Iterator[str]:
    peers = told.population.peers
    if peers is None:
        return
    node = told.node
    vram, timeout = _known(node.gpu_vram, "GB"), _known(node.timeout, "s")
    yield f"R = {decimal_text(found.size)} ({vram} of at most {peers.max_vram} GB)"
    span = f"{legacy.least_timeout_seconds} to {peers.max_timeout} s"
    yield f"P = {decimal_text(found.promptness)} (a timeout of {timeout}, from {span})"
    if found.speed is None:
        yield "B = none (no node score), counts as 0"
    else:
        best = decimal_text(peers.max_node_score)
        yield f"B = {decimal_text(found.speed)} (the best node score is {best})"
    a, b, c = legacy.vram_weight, legacy.timeout_weight, legacy.speed_weight
    weights = f"{decimal_text(a)} R + {decimal_text(b)} P + {decimal_text(c)} B"
    yield f"Q = {weights} = {decimal_text(found.combined)}"
    share = told.population.shares.get(node.address)
    if share is not None:
        yield f"Incentive share so far = {decimal_text(share)}"


def _known(number: int | None, unit: str) -> str:
    return "unknown" if number is None else f"{number} {unit}"
