"""Formats a node's advice as sentences and table cells, for its page and the command `advice`.

They are pure functions of the answer, so the page and the command show the same text
(docs/explanation/pages.md#sentences).
"""

from collections.abc import Mapping

from oracle.chain.profiles.profile import Token
from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.queries.advice.gpu_speeds import MIN_SHARED_GROUPS, GpuSpeed
from oracle.queries.advice.kickout_outlook import KickoutState, format_kickout_outlook
from oracle.queries.advice.node_advice import NodeAdvice
from oracle.queries.advice.node_money import NodeMoney, RankLoss
from oracle.queries.advice.what_if import WhatIf, WhatIfRow
from oracle.queries.advice.work_share import MissedDraws, WorkShare
from oracle.queries.api.gpu_table import MAX_GROUPS
from oracle.queries.population import sanitize_name
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_amount,
    format_count,
    format_duration,
    format_number_in_words,
    format_ordinal,
    format_percent,
    format_rank,
    format_two_decimals,
)
from oracle.systems.crynux.requirements import IneligibilityReason

WHAT_IF_TITLES = ("if", "mean score", "QoS", "rank", "chance of a task", "earns a day")
GPU_TITLES = ("GPU", "nodes", "shared tasks", "time", *WHAT_IF_TITLES[1:])
LOSS_TITLES = ("place", "tasks", "lost")
_NO_VALUE = "-"
_CHANGES: Mapping[str, str] = {
    "as_it_is": "as it is",
    "one_timeout_fewer": "one timeout fewer",
    "faster": "all answers 20 % faster",
}
WORK_TITLES = ("of these draws", "number")
_MISSED_TITLES: Mapping[IneligibilityReason, str] = {
    IneligibilityReason.NO_MEMBER: "it was not a member",
    IneligibilityReason.PAUSED: "it was paused",
    IneligibilityReason.BUSY: "it ran a task",
    IneligibilityReason.EXCLUDED: "its reliability was too low",
    IneligibilityReason.TAKEN: "it was drawn for another task",
    IneligibilityReason.GPU_UNKNOWN: "a certain GPU, and its own is not known",
    IneligibilityReason.GPU_NAME: "another GPU",
    IneligibilityReason.VRAM_UNKNOWN: "video memory, and its own is not known",
    IneligibilityReason.GPU_VRAM: "its GPU with another amount of memory",
    IneligibilityReason.VRAM_TOO_SMALL: "more video memory",
    IneligibilityReason.VERSION_UNKNOWN: "a version, and its own is not known",
    IneligibilityReason.VERSION: "another version",
    IneligibilityReason.MODELS_NOT_ON_DISK: "a model that it lacks and others have",
}
_KICKOUT_SENTENCES: Mapping[KickoutState, str] = {
    "due": "A kickout is due.",
    "not_expected": "At this rate no kickout becomes due.",
    "no_score": "No scored task counts now, so no kickout can be forecast.",
    "no_forecast": "The rules score each window by itself, so no kickout can be forecast.",
    "no_member": "The node is not a member, so no kickout can become due.",
}


def describe_kickout_outlook(advice: NodeAdvice) -> str:
    """Return one sentence about whether the node's kickout is due, or when it becomes due."""
    if advice.kickout_state == "expected" and advice.kickout is not None:
        return format_kickout_outlook(advice.kickout)
    if advice.hold_reason is not None:
        return f"A kickout is due, and held until an operator decides: {advice.hold_reason}."
    return _KICKOUT_SENTENCES[advice.kickout_state]


def summarize_what_if(what_if: WhatIf) -> str:
    """Return one sentence about the change that would raise the node's QoS most."""
    unchanged_row, *changed_rows = what_if.rows
    best_row = max(changed_rows, key=lambda row: row.qos)
    if best_row.qos <= unchanged_row.qos:
        return "No change below would raise its QoS."
    rank_change_text = ""
    if best_row.rank is not None and unchanged_row.rank is not None:
        has_same_rank = best_row.rank == unchanged_row.rank
        rank_change_text = f", and {'still ' if has_same_rank else ''}rank {best_row.rank}" + (
            "" if has_same_rank else f" instead of {unchanged_row.rank}"
        )
    return (
        f"{capitalize_first(_format_change_name(best_row))}: "
        f"QoS {format_two_decimals(best_row.qos)} "
        f"instead of {format_two_decimals(unchanged_row.qos)}{rank_change_text}, with its mean "
        f"reliability of the last 24 hours, {format_two_decimals(what_if.reliability)}."
    )


def format_what_if_rows(what_if: WhatIf, token: Token) -> list[tuple[str, ...]]:
    """Format a table row for each simulated change, except for changes of the GPU.

    Cells are in the order of `WHAT_IF_TITLES`.
    """
    return [
        (
            _format_change_name(row),
            format_two_decimals(row.mean_score),
            *_format_standing_cells(row, token),
        )
        for row in what_if.rows
        if row.gpu is None
    ]


def format_gpu_rows(what_if: WhatIf, token: Token) -> list[tuple[str, ...]]:
    """Format a table row for each GPU model in the network.

    Cells are in the order of `GPU_TITLES`. The GPU with the best QoS comes first. A GPU without a
    forecast has the reason in the column of its time, and empty cells after it.
    """
    row_by_gpu = {_format_gpu_name(row.gpu): row for row in what_if.rows if row.gpu is not None}
    unchanged_row = what_if.rows[0]
    rows = [
        (gpu, unchanged_row if gpu.is_own else row_by_gpu.get(_format_gpu_name(gpu)))
        for gpu in what_if.gpus
    ]
    rows.sort(key=lambda item: (item[1] is None, -(item[1].qos if item[1] is not None else 0)))
    return [_format_gpu_row(gpu, row, token) for gpu, row in rows]


def _format_gpu_row(gpu: GpuSpeed, row: WhatIfRow | None, token: Token) -> tuple[str, ...]:
    name = f"{_format_gpu_name(gpu)}{' (its own)' if gpu.is_own else ''}"
    if row is None:
        exclusion_reason = (
            f"too few shared tasks: {gpu.shared_groups} of at least {MIN_SHARED_GROUPS}"
        )
        cells = (name, str(gpu.nodes), str(gpu.shared_groups), exclusion_reason)
        return (*cells, *("" for _ in GPU_TITLES[len(cells) :]))
    return (
        name,
        str(gpu.nodes),
        _NO_VALUE if gpu.is_own else str(gpu.shared_groups),
        format_percent(UNIT if gpu.time_ratio is None else gpu.time_ratio),
        format_two_decimals(row.mean_score),
        *_format_standing_cells(row, token),
    )


def _format_gpu_name(gpu: GpuSpeed) -> str:
    return sanitize_name(gpu.name) + ("" if gpu.vram is None else f" with {gpu.vram} GB")


def _format_change_name(row: WhatIfRow) -> str:
    return _CHANGES[row.change] if row.gpu is None else _format_gpu_name(row.gpu)


def _format_standing_cells(row: WhatIfRow, token: Token) -> tuple[str, ...]:
    return (
        format_two_decimals(row.qos),
        _NO_VALUE if row.rank is None else format_ordinal(row.rank),
        _NO_VALUE if row.chance is None else format_percent(row.chance),
        _NO_VALUE if row.fees_per_day is None else _format_amount(row.fees_per_day, token),
    )


def explain_what_if(what_if: WhatIf) -> str:
    """Return the assumptions of the what-if results, and how many groups were ranked again."""
    groups_text = capitalize_first(format_count(what_if.groups, "group"))
    return (
        f"{what_if.assumption} That mean is {format_two_decimals(what_if.reliability)}; now "
        f"reliability is {format_two_decimals(what_if.reliability_now)}. {groups_text} could be "
        "ranked."
    )


def explain_gpu_comparison(what_if: WhatIf) -> str:
    """Return how the GPUs were compared, or why they cannot be compared."""
    if not any(gpu.is_own for gpu in what_if.gpus):
        return "The GPU of this node is not known, so no other one can be compared with it."
    return (
        "Time: the median of the times of this GPU, divided by those of the node's GPU, in the "
        f"tasks that both answered. Only the last {MAX_GROUPS:,} groups of the network count, "
        f"and {MIN_SHARED_GROUPS} shared tasks are needed."
    )


def explain_missing_what_if(advice: NodeAdvice) -> str | None:
    """Return why a node has no what-if results.

    The result is None if the node is not a member.
    """
    if advice.kickout_state == "no_member":
        return None
    if advice.kickout_state == "no_forecast":
        return "Under these rules a score depends on all other nodes, so no change is predicted."
    if advice.kickout_state == "no_score":
        return "No task of this node was scored yet, so no change can be predicted."
    return "None of its scored groups can be ranked again, so no change can be predicted."


def summarize_work_share(work: WorkShare) -> str:
    """Return one sentence that compares how often the node was drawn with the expected number."""
    return (
        f"It was drawn for {_format_count_or_none(work.received)} of the last "
        f"{format_count(work.draws, 'task')}; the expected number was "
        f"{format_decimal(work.expected, 1)}. It was a candidate for "
        f"{_format_count_or_none(work.eligible)} of them."
    )


def _format_count_or_none(count: int) -> str:
    return format_number_in_words(count) if count else "none"


def format_work_share_rows(work: WorkShare) -> list[tuple[str, ...]]:
    """Format a table row for each reason why the node was not a candidate in past draws.

    The first row counts the draws in which the node was a candidate. Cells are in the order of
    `WORK_TITLES`.
    """
    return [
        ("it was a candidate", str(work.eligible)),
        *(
            (_format_missed_draws(missed_draws), str(missed_draws.draws))
            for missed_draws in work.missed
        ),
    ]


def _format_missed_draws(missed_draws: MissedDraws) -> str:
    reason_title = _MISSED_TITLES[missed_draws.reason]
    return reason_title if reason_title.startswith("it ") else f"the task asked for {reason_title}"


def explain_work_share(work: WorkShare) -> str:
    """Return the node's share of the fees, how its weight is computed, and the assumptions."""
    sentences = []
    if work.fees:
        expected_percent, received_percent = (
            format_percent(fees * UNIT // work.fees)
            for fees in (work.fees_expected, work.fees_received)
        )
        sentences.append(
            f"Of the fees of these tasks, {received_percent} went to tasks that it was drawn for; "
            f"the expected share was {expected_percent}."
        )
    if work.weight is not None and work.qos is not None:
        sentences.append(
            f"Its weight for a task without models is {format_decimal(work.weight, 4)}, from the "
            f"stake score S = {format_decimal(work.stake_score, 4)} and the QoS Q = "
            f"{format_decimal(work.qos, 4)}: S \N{MULTIPLICATION SIGN} Q / (S + Q), rounded down, "
            "or the minimum weight of the policy if that is greater."
        )
    if work.fees:
        sentences.append(
            "The shares are of past draws, at the QoS of that time; the chance of the next task "
            "depends on the current QoS."
        )
    return " ".join([*sentences, work.assumption])


def summarize_earnings(money: NodeMoney, token: Token) -> str:
    """Return one sentence about what the node earns."""
    if not money.tasks:
        if money.without_fee:
            return "The fees of its scored tasks are not known."
        return "No scored task counts now."
    tasks_text = (
        f"{_format_amount(money.earned, token)} for {format_count(money.tasks, 'scored task')}"
    )
    if money.seconds is not None:
        tasks_text += f" in {format_duration(money.seconds)}"
    if money.per_day is None:
        return f"It earned {tasks_text}."
    return f"It earns about {_format_amount(money.per_day, token)} a day: {tasks_text}."


def summarize_todays_losses(money: NodeMoney, token: Token) -> str | None:
    """Return one sentence about the fees that the node lost since 00:00 UTC.

    The result is None if no counted task ended today.
    """
    if not money.tasks_today:
        return None
    # If all counted tasks ended today, tasks from earlier today may have stopped counting.
    at_least = "at least " if money.tasks_today == money.tasks else ""
    return (
        "Today, since 00:00 UTC, lower ranks and tasks without a right answer cost it "
        f"{at_least}{_format_amount(money.lost_today, token)} in fees. Of the scored tasks that "
        f"count, {format_number_in_words(money.tasks_today)} ended today."
    )


def format_lost_earnings_rows(money: NodeMoney, token: Token) -> list[tuple[str, ...]]:
    """Format a table row for each rank that cost the node fees.

    Cells are in the order of `LOSS_TITLES`.
    """
    return [
        (_format_loss_rank(loss), str(loss.tasks), _format_amount(loss.amount, token))
        for loss in money.losses
    ]


def _format_loss_rank(loss: RankLoss) -> str:
    return "no answer" if loss.rank is None else format_rank(loss.rank)


def _format_amount(amount: int, token: Token) -> str:
    return format_amount(amount, token.symbol, token.decimals)
