"""The pages of kickouts, draws, health and rules; and the paths of all pages."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fastapi.responses import Response

from oracle.daemon.lease.lease_keeper import worker
from oracle.daemon.web.pages.network_page import network_page
from oracle.daemon.web.pages.node_page import node_page
from oracle.daemon.web.pages.nodes_page import nodes_page
from oracle.daemon.web.pages.page_frame import PageRequest, page
from oracle.daemon.web.pages.round_pages import round_page, rounds_page
from oracle.daemon.web.pages.status_line import framed
from oracle.daemon.web.pages.task_page import search_page, task_page
from oracle.domain.reports.kicks import Kick, KickState
from oracle.queries.api.source import ApiLook
from oracle.queries.status import overview
from oracle.queries.text.quantities import moment, span
from oracle.systems.rule_docs import MEANINGS

_NEWEST = 50

ShowPage = Callable[[ApiLook, PageRequest], Response]


def kickouts_page(look: ApiLook, _asked: PageRequest) -> Response:
    """Kickouts that are due, proposed, executed or stopped."""
    kicks = list(reversed(look.uow.rounds.newest_kicks(_NEWEST)))
    return page(
        "kickouts.html",
        **framed(look, "Kickouts"),
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
        **framed(look, "Draws"),
        active=look.uow.draws.active(),
        over=look.uow.draws.over(_NEWEST),
    )


def health_page(look: ApiLook, _asked: PageRequest) -> Response:
    """Whether the index and what is sent are well, without names of machines and endpoints."""
    seen = overview(look.source.archive.store, worker)
    reasons = [f"{halt.name}: {halt.reason}" for halt in seen.halts]
    reasons += [f"the report of period {one.period} is held: {one.reason}" for one in seen.held]
    if seen.refusal is not None:
        reasons.append("a block is not taken in: qos-oracle resync refusal")
    if seen.dead_letters:
        reasons.append(f"{seen.dead_letters} logs could not be read: qos-oracle resync deadletter")
    if seen.kicks_refused:
        reasons.append(f"{seen.kicks_refused} kickouts were refused by the network")
    return page(
        "health.html",
        **framed(look, "Health"),
        seen=seen,
        reasons=reasons,
        outbox=sorted((*key, count) for key, count in seen.outbox.items() if count),
    )


def rules_page(look: ApiLook, _asked: PageRequest) -> Response:
    """Every number of the rules that folded what is shown, with meaning and source."""
    rules = look.source.archive.rules
    values: Mapping[str, Any] = json.loads(rules.to_json())
    rows = [
        (name, json.dumps(value), MEANINGS.get(name, ""))
        for name, value in sorted(values.items())
        if name not in ("name", "version", "legacy")
    ]
    legacy = values.get("legacy") or {}
    rows += [
        (f"legacy.{name}", json.dumps(value), MEANINGS.get(f"legacy.{name}", ""))
        for name, value in sorted(legacy.items())
    ]
    return page("rules.html", **framed(look, "Rules"), rules=rules, rows=rows)


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
    "/health": health_page,
    "/rules": rules_page,
})  # fmt: skip
