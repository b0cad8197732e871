"""The sentences and table rows of an advice, on the node's page and in `advice`.

Pure functions of the answer, so both show the same words
(docs/explanation/pages.md#sentences).
"""

from collections.abc import Mapping

from oracle.chain.profiles.profile import Token
from oracle.queries.advice.node_money import NodeMoney, RankLoss
from oracle.queries.advice.what_if import WhatIf, WhatIfRow
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_amount,
    format_count,
    format_duration,
    format_ordinal,
    format_percent,
    format_rank,
    format_two_decimals,
)

WHAT_IF_TITLES = ("if", "mean score", "QoS", "place", "chance of a task")
LOSS_TITLES = ("place", "tasks", "lost")
_NO_VALUE = "-"
_CHANGES: Mapping[str, str] = {
    "as_it_is": "as it is",
    "one_timeout_fewer": "one timeout fewer",
    "faster": "all answers 20 % faster",
}


def summarize_what_if(what_if: WhatIf) -> str:
    """Return the QoS that the best change would bring, in one sentence."""
    as_it_is, *changed = what_if.rows
    best = max(changed, key=lambda row: row.qos)
    if best.qos <= as_it_is.qos:
        return "None of these changes would have raised its QoS."
    change = capitalize_first(_CHANGES[best.change])
    rank_text = "" if best.rank is None else f", place {best.rank}"
    return (
        f"{change}: QoS {format_two_decimals(best.qos)} instead of "
        f"{format_two_decimals(as_it_is.qos)}{rank_text}."
    )


def list_what_if_cells(what_if: WhatIf) -> list[tuple[str, ...]]:
    """Return the cells of each row, in the order of `WHAT_IF_TITLES`."""
    return [_format_what_if_row(row) for row in what_if.rows]


def _format_what_if_row(row: WhatIfRow) -> tuple[str, ...]:
    return (
        _CHANGES[row.change],
        format_two_decimals(row.mean_score),
        format_two_decimals(row.qos),
        _NO_VALUE if row.rank is None else format_ordinal(row.rank),
        _NO_VALUE if row.chance is None else format_percent(row.chance),
    )


def explain_what_if(what_if: WhatIf) -> str:
    """Return what the rows assume."""
    groups_text = capitalize_first(format_count(what_if.groups, "group"))
    return f"{what_if.assumption} {groups_text} could be ranked."


def summarize_money(money: NodeMoney, token: Token) -> str:
    """Return what the node earns, in one sentence."""
    if not money.tasks:
        return "No fee of its scored tasks is known."
    earned = _format(money.earned, token)
    tasks = f"{format_count(money.tasks, 'scored task')} in {format_duration(money.seconds)}"
    if money.per_day is None:
        return f"It earned {earned} by {tasks}."
    return f"It earns about {_format(money.per_day, token)} a day: {earned} by {tasks}."


def list_loss_cells(money: NodeMoney, token: Token) -> list[tuple[str, ...]]:
    """Return the cells of each place that cost something, in the order of `LOSS_TITLES`."""
    return [
        (_format_rank_of_loss(loss), str(loss.tasks), _format(loss.amount, token))
        for loss in money.losses
    ]


def _format_rank_of_loss(loss: RankLoss) -> str:
    return "no answer" if loss.rank is None else format_rank(loss.rank)


def _format(amount: int, token: Token) -> str:
    return format_amount(amount, token.symbol, token.decimals)
