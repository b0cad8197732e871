"""The pages of kickouts, draws, health and rules; and the paths of all pages."""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from fastapi.responses import Response

from oracle.daemon.web.pages.draw_page import render_task_draws
from oracle.daemon.web.pages.network_page import render_network
from oracle.daemon.web.pages.node_page import render_node
from oracle.daemon.web.pages.nodes_page import render_nodes
from oracle.daemon.web.pages.page_frame import PageRequest, format_two_digits, render_template
from oracle.daemon.web.pages.round_pages import render_round, render_rounds
from oracle.daemon.web.pages.status_line import build_frame_values
from oracle.daemon.web.pages.task_page import redirect_search, render_task
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import Address
from oracle.domain.reports.kicks import Kick, KickState
from oracle.queries.api.lifting import compute_what_if_figures
from oracle.queries.api.rule_view import build_rules_answer
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.api.status_view import build_public_status
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_count,
    format_duration,
    format_time,
)

_NEWEST = 50

RenderPage = Callable[[ApiSnapshot, PageRequest], Response]


def render_kickouts(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show the kickouts that are due, proposed, executed or stopped."""
    kicks = list(reversed(snapshot.uow.rounds.list_newest_kicks(_NEWEST)))
    return render_template(
        "kickouts.html",
        **build_frame_values(snapshot, "Kickouts", "/v1/kickouts"),
        has_evidence=request.has_evidence,
        due=[
            (kickout, describe_kickout_lift(snapshot, kickout.node))
            for kickout in snapshot.uow.kickouts.list_open()
        ],
        kicks=[(kick, _describe_kick(snapshot, kick)) for kick in kicks],
        below=format_two_digits(format_decimal(snapshot.source.archive.rules.kickout_below)),
    )


def describe_kickout_lift(snapshot: ApiSnapshot, address: Address) -> str:
    """Return a sentence on the scores that would lift a node above the kickout threshold.

    Their number comes from a trial fold. The text is empty if there is none.
    """
    node = snapshot.get_ranking().nodes.get(address)
    rules, time = snapshot.source.archive.rules, snapshot.cursor.time
    steps = None if node is None else compute_what_if_figures(node, time, rules, None).over_line
    if not steps:
        return ""
    row = "" if steps == 1 else " in a row"
    return f"{capitalize_first(format_count(steps, 'first place'))}{row} would stop it."


def _describe_kick(snapshot: ApiSnapshot, kick: Kick) -> str:
    """Return a sentence on the state of a kickout, with the time of an execution."""
    expulsion = kick.expulsion
    time = None if expulsion is None else snapshot.find_time(expulsion.at)
    if kick.state is KickState.EXECUTED and time is not None:
        return f"Executed {format_time(time)}."
    return describe_kick_stage(kick, snapshot.cursor.time)


def describe_kick_stage(kick: Kick, now: int) -> str:
    """Return a sentence on the state of a kickout; `now` is block time."""
    if kick.state is not KickState.LIVE:
        return f"{kick.state.value.replace('_', ' ').capitalize()}."
    if now < kick.ready_at:
        return (
            f"Veto period ends in {format_duration(kick.ready_at - now)}, at "
            f"{format_time(kick.ready_at)}."
        )
    if now < kick.dies_at:
        return f"Executable until {format_time(kick.dies_at)}."
    return "Expired without execution."


def render_draws(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show the active draws, and the newest inactive ones."""
    return render_template(
        "draws.html",
        **build_frame_values(snapshot, "Draws", "/v1/draws"),
        active=snapshot.uow.draws.list_active(),
        over=snapshot.uow.draws.list_voided(_NEWEST),
    )


def render_health(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show the health of index and senders, without names of hosts and endpoints."""
    status = build_public_status(snapshot)
    reasons = [
        f"{condition.title}: {condition.action.replace('`', '')}"
        for condition in snapshot.load_health().conditions
    ]
    if status.dead_letters:
        reasons.append(f"{format_count(status.dead_letters, 'log')} could not be read")
    call_count_by_state: Counter[str] = Counter()
    for entry in status.outbox:
        call_count_by_state[entry.state] += entry.count
    frame = build_frame_values(snapshot, "Health", "/v1/status")
    return render_template(
        "health.html", **frame, seen=status, reasons=reasons, calls=call_count_by_state
    )


def render_rules(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show all parameters of the rules behind the shown state, with meaning and source."""
    return render_template(
        "rules.html",
        **build_frame_values(snapshot, "Rules", "/v1/rules"),
        rules=build_rules_answer(snapshot),
    )


PAGES: Mapping[str, RenderPage] = MappingProxyType({
    "/": render_network,
    "/nodes": render_nodes,
    "/nodes/{address}": render_node,
    "/tasks/{key}": render_task,
    "/search": redirect_search,
    "/rounds": render_rounds,
    "/rounds/{number}": render_round,
    "/kickouts": render_kickouts,
    "/draws": render_draws,
    "/draws/{key}": render_task_draws,
    "/health": render_health,
    "/rules": render_rules,
})  # fmt: skip
