"""The pages for tasks, rounds, kickouts, draws, health, rules and search, and node feeds.

`PAGES` lists the paths of all pages.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby, islice, zip_longest
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from fastapi.responses import RedirectResponse, Response

from oracle.chain.hex_names import HASH_INPUT_PATTERN
from oracle.daemon.web.pages.network_page import render_network
from oracle.daemon.web.pages.node_page import SENTENCE_BY_CHANGE, describe_chart_mark, render_node
from oracle.daemon.web.pages.nodes_page import render_nodes
from oracle.daemon.web.pages.page_frame import (
    PageRequest,
    build_frame_values,
    format_two_digits,
    get_template_environment,
    parse_node_prefix,
    parse_round_number,
    parse_task_key,
    render_template,
)
from oracle.daemon.web.pages.proof_card import build_proof_card, get_accepted_round
from oracle.domain.coverage import CHECK_BY_LEVEL
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.lanes import NEVER_REPORTED
from oracle.domain.reports.node_kicks import KickState, NodeKick
from oracle.domain.scoring.reliability import DECREASE_CAUSES, ReliabilityCause
from oracle.indexer.round_leaves import load_domain, load_pieced_round, load_round_lanes
from oracle.queries.answers import LogPlace
from oracle.queries.api.lifting import compute_what_if_counts
from oracle.queries.api.network_view import build_public_status
from oracle.queries.api.node_history import MAX_POINTS, HistoryQuery, build_node_history
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.node_proof import is_whole_address
from oracle.queries.api.records.draw_view import list_task_draws
from oracle.queries.api.records.kickout_view import load_accusation_delays
from oracle.queries.api.records.node_past import build_node_past, format_lane
from oracle.queries.api.records.objection_view import list_objections
from oracle.queries.api.records.round_view import MAX_ROUNDS, list_signers
from oracle.queries.api.records.task_view import build_task_answer
from oracle.queries.api.rules_history import build_rules_answer, build_rules_history
from oracle.queries.api.rules_preview_view import build_rules_previews
from oracle.queries.api.source import (
    AmbiguousPrefixError,
    ApiSnapshot,
    NotFoundError,
)
from oracle.queries.objection_models import describe_objection_state
from oracle.queries.proof_sentences import describe_summary
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_count,
    format_duration,
    format_time,
)
from oracle.queries.text.text_tables import format_utc
from oracle.store.state.draw_repository import StoredDraw

_SEE_OTHER = 303
# The number of rounds, kickouts and inactive draws on their pages.
_NEWEST = 50
# Maximum number of changes on a round's page, because a round may change all nodes.
_MAX_CHANGES = 500
_KEY = re.compile(HASH_INPUT_PATTERN)
_NUMBER = re.compile(r"[0-9]{1,18}")

RenderPage = Callable[[ApiSnapshot, PageRequest], Response]
# Maximum number of feed entries, and the time range that they cover (thirty days).
_MAX_FEED_ENTRIES = 50
_FEED_SPAN_SECONDS = 30 * 86_400
_FEED_MEDIA_TYPE = "application/atom+xml; charset=utf-8"


def render_task(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show the history of a task and the group that scored it."""
    key = parse_task_key(request.path["key"])
    task = snapshot.uow.tasks.get_many([key]).get(key)
    if task is None:
        raise NotFoundError(f"task {key} was not found in the indexed blocks")
    results = [] if task.group is None else snapshot.uow.results.list_for_group(task.group)
    task_results = [
        result for result in results if any(member.task == task.key for member in result.members)
    ]
    return render_template(
        "task.html",
        **build_frame_values(snapshot, None, f"/v1/tasks/{task.key}"),
        task=task,
        groups=[
            (result, sorted(result.members, key=lambda member: member.rank or len(result.members)))
            for result in task_results
        ],
        places=snapshot.load_log_places(closed_result.closed_at for closed_result in task_results),
        is_drawn=bool(snapshot.uow.draws.list_for_task(task.key)),
        moments=build_task_answer(snapshot, task.key).moments,
    )


def redirect_search(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Redirect to the page that matches the entered address, task, round or prefix."""
    return RedirectResponse(
        resolve_search_path(snapshot, request.get_query_field("q") or ""), _SEE_OTHER
    )


def resolve_search_path(snapshot: ApiSnapshot, text: str) -> str:
    """Return the path of the page that matches a search text.

    A number denotes a round, 64 hex digits a task, 40 hex digits an address, and a label or fewer
    hex digits a node.

    Raises:
        RequestError: the text is none of these.
        NotFoundError: no node has this prefix.
        AmbiguousPrefixError: several nodes match.
    """
    query = text.strip()
    if _NUMBER.fullmatch(query):
        return f"/rounds/{int(query)}"
    if _KEY.fullmatch(query):
        return f"/tasks/{parse_task_key(query)}"
    labelled_nodes = snapshot.source.find_addresses_by_label(query) if query else []
    if len(labelled_nodes) > 1:
        raise AmbiguousPrefixError(query, list(labelled_nodes))
    if labelled_nodes:
        return f"/nodes/{quote(labelled_nodes[0])}"
    prefix = parse_node_prefix(query)
    # A full address need not belong to a node, because the page can also prove that no node has
    # it.
    is_whole = is_whole_address(prefix)
    address = prefix if is_whole else find_node_by_prefix(snapshot, prefix).address
    return f"/nodes/{quote(address)}"


def render_rounds(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show the newest rounds that the contract accepted."""
    accepted_rounds = snapshot.uow.rounds.list_accepted(_NEWEST)[::-1]
    pieced_rounds = {
        accepted_round.round: load_pieced_round(
            snapshot.uow, snapshot.source.leaves, accepted_round
        )
        for accepted_round in accepted_rounds
    }
    rounds_by_day = groupby(
        accepted_rounds, lambda accepted_round: format_utc(accepted_round.time, "%A, %d %B %Y")
    )
    return render_template(
        "rounds.html",
        **build_frame_values(snapshot, "Rounds", "/v1/rounds"),
        newest=accepted_rounds[0] if accepted_rounds else None,
        days=[(day, list(rounds)) for day, rounds in rounds_by_day],
        summaries={
            number: None if pieced_round is None else pieced_round.summary
            for number, pieced_round in pieced_rounds.items()
        },
    )


def render_round(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show one round: its root, its transaction, and the nodes whose reported score it changed."""
    number = parse_round_number(request.path["number"])
    accepted_round = get_accepted_round(snapshot, number)
    change_count, changes = _list_lane_changes(snapshot, accepted_round)
    # Any node will do, because the page shows the round's summary, which every proof contains.
    address = changes[0][0] if changes else ZERO_ADDRESS
    proof = build_proof_card(snapshot, address, accepted_round)
    return render_template(
        "round.html",
        **build_frame_values(snapshot, "Rounds", f"/v1/rounds/{accepted_round.round}"),
        round=accepted_round,
        place=snapshot.load_log_places([accepted_round.at])[accepted_round.at],
        is_struck=snapshot.uow.rounds.is_struck(number),
        signers=snapshot.uow.rounds.list_round_signers(accepted_round),
        changes=changes,
        change_count=change_count,
        proof=proof,
        summary_rows=[] if proof.summary is None else describe_summary(proof.summary),
    )


def render_signers(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show which of the newest rounds each signer of the contract signed."""
    return render_template(
        "signers.html",
        **build_frame_values(snapshot, "Rounds", "/v1/signers"),
        answer=list_signers(snapshot),
        max_rounds=MAX_ROUNDS,
    )


def _list_lane_changes(
    snapshot: ApiSnapshot, accepted_round: RoundAccepted
) -> tuple[int, list[tuple[Address, str, str]]]:
    """Return how many scores changed since the previous round, with the first changes.

    A change is a node, and the texts of its scores before and after it. The list is empty if the
    leaves of one of the two rounds are no longer stored.
    """
    uow, leaves = snapshot.uow, snapshot.source.leaves
    previous_round = uow.rounds.find_accepted_round(accepted_round.round - 1)
    lanes = load_round_lanes(uow, leaves, accepted_round)
    old_lanes = None if previous_round is None else load_round_lanes(uow, leaves, previous_round)
    if not lanes or (old_lanes is not None and not old_lanes):
        return 0, []
    old_and_new_lanes = zip_longest(old_lanes or (), lanes, fillvalue=NEVER_REPORTED)
    lane_change_by_seat = {
        seat: (old_lane, new_lane)
        for seat, (old_lane, new_lane) in enumerate(old_and_new_lanes)
        if old_lane != new_lane
    }
    shown_changes = dict(islice(lane_change_by_seat.items(), _MAX_CHANGES))
    node_by_seat = uow.nodes.get_address_by_seat(shown_changes)
    return len(lane_change_by_seat), [
        (node_by_seat[seat], format_lane(old_lane), format_lane(new_lane))
        for seat, (old_lane, new_lane) in shown_changes.items()
        if seat in node_by_seat
    ]


def render_kickouts(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show kickouts that are due, accused, executed or stopped."""
    kicks = list(reversed(snapshot.uow.rounds.list_newest_kicks(_NEWEST)))
    due_intervals = snapshot.uow.kickouts.list_open()
    delay_by_node = load_accusation_delays(snapshot, due_intervals)
    return render_template(
        "kickouts.html",
        **build_frame_values(snapshot, "Kickouts", "/v1/kickouts"),
        has_evidence=request.has_evidence,
        due=[
            (
                kickout,
                describe_recovery_scores(snapshot, kickout.node),
                delay_by_node.get(kickout.node),
            )
            for kickout in due_intervals
        ],
        kicks=[(kick, _describe_kick(snapshot, kick)) for kick in kicks],
        below=format_two_digits(format_decimal(snapshot.source.archive.rules.kickout_below)),
    )


def render_objections(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show the newest objections, and which of them wait for the operator's answer."""
    newest_objections = list_objections(snapshot, _NEWEST).objections
    terms = snapshot.source.archive.objection_terms
    return render_template(
        "objections.html",
        **build_frame_values(snapshot, "Objections", "/v1/objections"),
        is_indexed=terms is not None,
        waiting_count=sum(entry.answer_until is not None for entry in newest_objections),
        objections=[(entry, describe_objection_state(entry)) for entry in newest_objections],
    )


def describe_recovery_scores(snapshot: ApiSnapshot, address: Address) -> str:
    """Return a sentence about how many first places in a row would stop a node's kickout.

    The number of scores is found by trial folds. If no number suffices, the text is empty.
    """
    node = snapshot.get_ranking().nodes.get(address)
    rules, time = snapshot.source.archive.rules, snapshot.cursor.time
    first_places_needed = (
        None
        if node is None
        else compute_what_if_counts(node, time, rules, None).first_places_to_clear
    )
    if not first_places_needed:
        return ""
    streak_suffix = "" if first_places_needed == 1 else " in a row"
    count_text = capitalize_first(format_count(first_places_needed, "first place"))
    return f"{count_text}{streak_suffix} would stop it."


def _describe_kick(snapshot: ApiSnapshot, kick: NodeKick) -> str:
    """Return a sentence about the state of a kickout, with its execution time if known."""
    expulsion = kick.expulsion
    time = None if expulsion is None else snapshot.find_block_time(expulsion.at)
    if kick.state is KickState.EXPELLED and time is not None:
        return f"Executed {format_time(time)}."
    return describe_kickout_stage(kick, snapshot.cursor.time)


def describe_kickout_stage(kick: NodeKick, now: int) -> str:
    """Return a sentence about the state of a kickout at the block time `now`."""
    accusation = kick.accusation
    if not kick.is_accused or accusation is None:
        return f"{kick.state.value.capitalize()}."
    if now < accusation.ready_at:
        return (
            f"Veto period ends in {format_duration(accusation.ready_at - now)}, at "
            f"{format_time(accusation.ready_at)}."
        )
    return "Executable while the last round states it."


def render_draws(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show the active and the newest inactive draws, grouped by their seed block."""
    active = snapshot.uow.draws.list_active()
    return render_template(
        "draws.html",
        **build_frame_values(snapshot, "Draws", "/v1/draws"),
        active_count=len(active),
        active=_group_by_seed_block(active),
        over=_group_by_seed_block(snapshot.uow.draws.list_voided(_NEWEST)),
    )


def _group_by_seed_block(draws: Iterable[StoredDraw]) -> list[tuple[int, list[StoredDraw]]]:
    """Group the draws by seed block, newest block first."""
    sorted_draws = sorted(draws, key=lambda draw: (-draw.seed_block, draw.number_in_block))
    draws_by_seed_block = groupby(sorted_draws, key=lambda draw: draw.seed_block)
    return [(block, list(draws_of_block)) for block, draws_of_block in draws_by_seed_block]


def render_task_draws(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show all draws of a task with their inputs."""
    task = parse_task_key(request.path["key"])
    task_draws = list_task_draws(snapshot, task)
    return render_template(
        "draw.html",
        **build_frame_values(snapshot, "Draws", f"/v1/draws/{task}"),
        task=task,
        draws=task_draws.draws,
        can_draw=snapshot.source.dispatch is not None,
    )


def render_health(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show the health of the index and the senders, without host or endpoint names."""
    status = build_public_status(snapshot)
    reasons = [
        f"{condition.title}: {condition.action.replace('`', '')}"
        for condition in snapshot.load_health_report().conditions
    ]
    if status.dead_letters:
        reasons.append(f"{format_count(status.dead_letters, 'log')} could not be read")
    call_count_by_state: Counter[str] = Counter()
    for entry in status.outbox:
        call_count_by_state[entry.state] += entry.count
    frame = build_frame_values(snapshot, "Health", "/v1/status")
    return render_template(
        "health.html",
        **frame,
        seen=status,
        reasons=reasons,
        calls=call_count_by_state,
        checks={level.name.lower(): check for level, check in CHECK_BY_LEVEL.items()},
    )


def render_rules(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show all parameters of the rules in effect, with their meaning and source."""
    return render_template(
        "rules.html",
        **build_frame_values(snapshot, "Rules", "/v1/rules"),
        rules=build_rules_answer(snapshot),
        history=build_rules_history(snapshot),
        previews=build_rules_previews(snapshot).previews,
    )


class AtomEntry(NamedTuple):
    """An event of a node: its stable id, its unix time and its sentence."""

    id: str
    time: int
    title: str


def render_node_feed(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Return a node's newest events as an Atom feed."""
    node = find_node_by_prefix(snapshot, parse_node_prefix(request.path["address"]))
    entries = list_feed_entries(snapshot, node.address)
    feed_xml = (
        get_template_environment()
        .get_template("node_feed.xml")
        .render(
            node=node.address,
            label=snapshot.source.labels.get(node.address),
            feed_id=f"urn:qos-oracle:{load_domain(snapshot.uow).chain_id}:{node.address}",
            entries=entries,
            updated=entries[0].time if entries else snapshot.cursor.time,
        )
    )
    return Response(feed_xml, media_type=_FEED_MEDIA_TYPE, headers={"cache-control": "no-cache"})


def list_feed_entries(snapshot: ApiSnapshot, address: Address) -> list[AtomEntry]:
    """Return a node's latest membership changes and reliability drops, newest first."""
    oldest_time = max(0, snapshot.cursor.time - _FEED_SPAN_SECONDS)
    query = HistoryQuery(first=oldest_time, last=None, points=MAX_POINTS)
    decrease_entries = [
        AtomEntry(_build_entry_id(mark.place, mark.cause), mark.time, describe_chart_mark(mark))
        for mark in build_node_history(snapshot, address, query).marks
        if ReliabilityCause(mark.cause) in DECREASE_CAUSES
    ]
    change_entries = [
        AtomEntry(
            _build_entry_id(event.place, event.what), event.time, SENTENCE_BY_CHANGE[event.what]
        )
        for event in build_node_past(snapshot, address).membership
        if event.time is not None and event.time >= oldest_time
    ]
    entries = sorted(
        [*decrease_entries, *change_entries], key=lambda entry: entry.time, reverse=True
    )
    return entries[:_MAX_FEED_ENTRIES]


def _build_entry_id(log_place: LogPlace, kind: str) -> str:
    """Return an id that stays the same while the event keeps its place in the chain."""
    if log_place.tx is None:
        return f"{log_place.block}-feed-{log_place.feed_row}-{kind}"
    return f"{log_place.block}-{log_place.tx}-{log_place.log}-{kind}"


PAGES: Mapping[str, RenderPage] = MappingProxyType({
    "/": render_network,
    "/nodes": render_nodes,
    "/nodes/{address}": render_node,
    "/nodes/{address}/feed.atom": render_node_feed,
    "/tasks/{key}": render_task,
    "/search": redirect_search,
    "/rounds": render_rounds,
    "/rounds/{number}": render_round,
    "/signers": render_signers,
    "/kickouts": render_kickouts,
    "/objections": render_objections,
    "/draws": render_draws,
    "/draws/{key}": render_task_draws,
    "/health": render_health,
    "/rules": render_rules,
})  # fmt: skip
