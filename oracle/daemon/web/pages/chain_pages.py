"""The pages of kickouts, draws, health and rules; and the paths of all pages."""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from fastapi.responses import Response

from oracle.daemon.web.pages.draw_page import draw_page
from oracle.daemon.web.pages.network_page import network_page
from oracle.daemon.web.pages.node_page import node_page
from oracle.daemon.web.pages.nodes_page import nodes_page
from oracle.daemon.web.pages.page_frame import PageRequest, page, two_digits
from oracle.daemon.web.pages.round_pages import round_page, rounds_page
from oracle.daemon.web.pages.status_line import framed
from oracle.daemon.web.pages.task_page import search_page, task_page
from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import Address
from oracle.domain.reports.kicks import Kick, KickState
from oracle.queries.api.lifting import lift_of
from oracle.queries.api.rule_view import rules_view
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.api.status_view import status_view
from oracle.queries.text.human_numbers import capital, counted, moment, span

_NEWEST = 50

ShowPage = Callable[[ApiSnapshot, PageRequest], Response]


def kickouts_page(look: ApiSnapshot, asked: PageRequest) -> Response:
    """Kickouts that are due, proposed, executed or stopped."""
    kicks = list(reversed(look.uow.rounds.newest_kicks(_NEWEST)))
    return page(
        "kickouts.html",
        **framed(look, "Kickouts", "/v1/kickouts"),
        has_evidence=asked.has_evidence,
        due=[(one, lifted_by(look, one.node)) for one in look.uow.kickouts.open()],
        kicks=[(one, _stage(look, one)) for one in kicks],
        below=two_digits(decimal_text(look.source.archive.rules.kickout_below)),
    )


def lifted_by(look: ApiSnapshot, address: Address) -> str:
    """Return the scores that would lift a node above the kickout threshold, by a trial fold."""
    node = look.ranking().nodes.get(address)
    rules, time = look.source.archive.rules, look.cursor.time
    steps = None if node is None else lift_of(node, time, rules, None).over_line
    if not steps:
        return ""
    row = "" if steps == 1 else " in a row"
    return f"{capital(counted(steps, 'first place'))}{row} would stop it."


def _stage(look: ApiSnapshot, kick: Kick) -> str:
    """Return the state of a kickout; for an executed one, with its time."""
    gone = kick.expulsion
    time = None if gone is None else look.time_of(gone.at)
    if kick.state is KickState.EXECUTED and time is not None:
        return f"Executed {moment(time)}."
    return stage_of(kick, look.cursor.time)


def stage_of(kick: Kick, now: int) -> str:
    """Return the state of a kickout in a sentence; `now` in block time."""
    if kick.state is not KickState.LIVE:
        return f"{kick.state.value.replace('_', ' ').capitalize()}."
    if now < kick.ready_at:
        return (
            f"The veto runs for {span(kick.ready_at - now)} more, until {moment(kick.ready_at)}."
        )
    if now < kick.dies_at:
        return f"It may be executed, until {moment(kick.dies_at)}."
    return "It was not executed in its time, and is over."


def draws_page(look: ApiSnapshot, _asked: PageRequest) -> Response:
    """The active draws, and the newest inactive ones."""
    return page(
        "draws.html",
        **framed(look, "Draws", "/v1/draws"),
        active=look.uow.draws.active(),
        over=look.uow.draws.over(_NEWEST),
    )


def health_page(look: ApiSnapshot, _asked: PageRequest) -> Response:
    """The health of index and senders, without names of hosts and endpoints."""
    seen = status_view(look)
    waiting = [f"{one.title}: {one.action.replace('`', '')}" for one in look.health().conditions]
    if seen.dead_letters:
        waiting.append(f"{counted(seen.dead_letters, 'log')} could not be read")
    calls: Counter[str] = Counter()
    for entry in seen.outbox:
        calls[entry.state] += entry.count
    frame = framed(look, "Health", "/v1/status")
    return page("health.html", **frame, seen=seen, reasons=waiting, calls=calls)


def rules_page(look: ApiSnapshot, _asked: PageRequest) -> Response:
    """All parameters of the rules behind the shown state, with meaning and source."""
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
