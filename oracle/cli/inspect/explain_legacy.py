"""Text of `explain` for legacy rules: the tasks of the window, and the factors R, P, B and Q."""

from collections.abc import Iterator

from oracle.domain.fixed_point import format_decimal
from oracle.domain.fold.legacy_round_scores import compute_round_scores
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.scoring.legacy_factors import Factors
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.legacy_tally import WindowTally, compute_window_start
from oracle.domain.state import Membership
from oracle.queries.explain import Explanation
from oracle.queries.text.status_text import format_block_time


def render_window_lines(explanation: Explanation, legacy: LegacyRules) -> Iterator[str]:
    """Yield every task of the current window, and the factors that compare node and peers."""
    factors = explanation.figures.factors
    if factors is None:
        return
    start_time = format_block_time(compute_window_start(factors.tally.window, legacy))
    yield f"Task scores in the window that began {start_time}: {factors.tally.tasks}"
    yield from _render_tasks(explanation)
    yield _format_mean(factors.tally)
    yield f"Member in this window for {factors.tally.online_seconds} s"
    if explanation.node.membership is Membership.MEMBER:
        yield ""
        yield from _render_factors(explanation, factors, legacy)


def _render_tasks(explanation: Explanation) -> Iterator[str]:
    for entry in explanation.scores:
        yield f"  #{entry.seq} score {entry.score} at block {entry.at.block}"
        yield f"     task {entry.task}{_describe_rounds(explanation, entry)}"
        yield from render_earning_lines(explanation, entry)
        transaction = explanation.transaction_by_position.get(entry.at, "unknown")
        yield f"     transaction {transaction}, log {entry.at.log}"


def render_earning_lines(explanation: Explanation, entry: ScoreEntry) -> Iterator[str]:
    """Yield the node's earnings from the task of a score, if they are known."""
    earning = explanation.compute_earning(entry)
    if earning is not None:
        yield f"     {earning.to_text()}"


def _describe_rounds(explanation: Explanation, entry: ScoreEntry) -> str:
    """Return the node's ranks in both rounds; a single open submission counts for both."""
    runs = explanation.find_runs(entry)
    if not runs and entry.rank is not None:
        return f": rank {entry.rank} in both rounds, {entry.elapsed} s"
    scores = compute_round_scores(runs, explanation.rules)
    for run, scored in zip(runs, scores, strict=False):
        if run.node == explanation.node.address:
            commitment = _format_rank(scored.commitment_rank, scored.commitment_score)
            disclosure = _format_rank(scored.disclosure_rank, scored.disclosure_score)
            return f": commitment {commitment}, disclosure {disclosure}"
    return ""


def _format_rank(rank: int | None, score: int) -> str:
    return f"no submission ({score})" if rank is None else f"rank {rank} ({score})"


def _format_mean(tally: WindowTally) -> str:
    if tally.node_score is None:
        return "Node score: none, no task ended in this window"
    return f"Node score = {tally.total} / {tally.tasks} = {format_decimal(tally.node_score)}"


def _render_factors(
    explanation: Explanation, factors: Factors, legacy: LegacyRules
) -> Iterator[str]:
    peers = explanation.population.peers
    if peers is None:
        return
    node = explanation.node
    vram, timeout = _format_quantity(node.gpu_vram, "GB"), _format_quantity(node.timeout, "s")
    yield f"R = {format_decimal(factors.size)} ({vram} of at most {peers.max_vram} GB)"
    timeout_range = f"{legacy.least_timeout_seconds} to {peers.max_timeout} s"
    yield f"P = {format_decimal(factors.promptness)} (timeout {timeout}, range {timeout_range})"
    if factors.speed is None:
        yield "B = none (no node score), counts as 0"
    else:
        best_score = format_decimal(peers.max_node_score)
        yield f"B = {format_decimal(factors.speed)} (the best node score is {best_score})"
    a, b, c = legacy.vram_weight, legacy.timeout_weight, legacy.speed_weight
    weights = f"{format_decimal(a)} R + {format_decimal(b)} P + {format_decimal(c)} B"
    yield f"Q = {weights} = {format_decimal(factors.combined)}"
    share = explanation.population.shares.get(node.address)
    if share is not None:
        yield f"Incentive share so far = {format_decimal(share)}"


def _format_quantity(quantity: int | None, unit: str) -> str:
    return "unknown" if quantity is None else f"{quantity} {unit}"
