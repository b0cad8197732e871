"""The pages of kickouts, draws, health and rules; and the paths of all pages."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fastapi.responses import Response

from oracle.daemon.web.pages.draw_page import draw_page
from oracle.daemon.web.pages.network_page import network_page
from oracle.daemon.web.pages.node_page import node_page
from oracle.daemon.web.pages.nodes_page import nodes_page
from oracle.daemon.web.pages.page_frame import PageRequest, page
from oracle.daemon.web.pages.round_pages import round_page, rounds_page
from oracle.daemon.web.pages.status_line import framed
from oracle.daemon.web.pages.task_page import search_page, task_page
from oracle.domain.reports.kicks import Kick, KickState
from oracle.queries.api.rule_view import rules_view
from oracle.queries.api.source import ApiLook
from oracle.queries.api.status_view import status_view
from oracle.queries.text.human_numbers import counted, moment, span

_NEWEST = 50

ShowPage = Callable[[ApiLook, PageRequest], Response]


def kickouts_page(look: ApiLook, _asked: PageRequest) -> Response:
    """Kickouts that are due, proposed, executed or stopped."""
    kicks = list(reversed(look.uow.rounds.newest_kicks(_NEWEST)))
    return page(
        "kickouts.html",
        **framed(look, "Kickouts", "/v1/kickouts"),
        due=look.uow.kickouts.open(),
        kicks=[(one, stage_of(one, look.cursor.time)) for one in kicks],
        below=look.source.archive.rules.kickout_below,
    )


def stage_of(kick: Kick, now: int) -> str:
    """Return where a kickout stands, in a sentence; `now` in block time."""
    if kick.state is not KickState.LIVE:
        return f"{kick.state.value.replace('_', ' ').capitalize()}."
    if now < kick.ready_at:
        return (
            f"The veto runs for {span(kick.ready_at - now)} more, until {moment(kick.ready_at)}."
        )
    if now < kick.dies_at:
        return f"It may be executed, until {moment(kick.dies_at)}."
    return "It was not executed in its time, and is over."


def draws_page(look: ApiLook, _asked: PageRequest) -> Response:
    """Draws that stand, and the last that are over."""
    return page(
        "draws.html",
        **framed(look, "Draws", "/v1/draws"),
        active=look.uow.draws.active(),
        over=look.uow.draws.over(_NEWEST),
    )


def health_page(look: ApiLook, _asked: PageRequest) -> Response:
    """Whether the index and what is sent are well, without names of machines and endpoints."""
    seen = status_view(look)
    waiting = [*seen.reasons]
    if seen.reports_held:
        waiting.append(f"{counted(seen.reports_held, 'report')} held: qos-oracle report release")
    if seen.dead_letters:
        waiting.append(f"{counted(seen.dead_letters, 'log')} could not be read")
    return page("health.html", **framed(look, "Health", "/v1/status"), seen=seen, reasons=waiting)


def rules_page(look: ApiLook, _asked: PageRequest) -> Response:
    """Every number of the rules that folded what is shown, with meaning and source."""
    return page("rules.html", **framed(look, "Rules", "/v1/rules"), rules=rules_view(look))


PAGES: Mapping[str, ShowPage] = MappingProxyType({
    "/": network_page,
    "/nodes": nodes_page,
    "/nodes/{address}": node_page,
    "/tasks/{key}": task_page,
    "/search": search_page,
    "/rounds": rounds_page,
    "/rounds/{number}": round_page,
    "/kickouts": kickouts_page,
    "/draws": draws_page,
    "/draws/{key}": draw_page,
    "/health": health_page,
    "/rules": rules_page,
})  # fmt: skip
