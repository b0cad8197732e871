"""The pages of rounds: the accepted rounds, and the changes of each round."""

from typing import NamedTuple

from fastapi.responses import Response

from oracle.daemon.web.pages.page_frame import PageRequest, render_template
from oracle.daemon.web.pages.status_line import build_frame_values
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LANES_PER_WORD, unpack_lanes
from oracle.queries.api.records.node_past import format_lane
from oracle.queries.api.source import ApiSnapshot, NotFoundError, RequestError

_NEWEST = 50
_LONGEST_NUMBER = 18


class ReportedLaneChange(NamedTuple):
    """The change of one node's lane in a round; a lane without QoS means not selectable."""

    node: Address
    before: str
    after: str


def render_rounds(snapshot: ApiSnapshot, _request: PageRequest) -> Response:
    """Show the newest rounds that the contract accepted."""
    newest = list(reversed(snapshot.uow.rounds.list_accepted(_NEWEST)))
    change_count_by_round = {
        accepted_round.round: len(_list_lane_changes(snapshot, accepted_round))
        for accepted_round in newest
    }
    return render_template(
        "rounds.html",
        **build_frame_values(snapshot, "Rounds", "/v1/rounds"),
        rounds=newest,
        changed=change_count_by_round,
    )


def render_round(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show one round: its digest and transaction, and each node whose lane it changed."""
    text = request.path["number"]
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        raise RequestError("round: expected a number")
    accepted_round = snapshot.uow.rounds.get_accepted_round(int(text))
    if accepted_round is None:
        raise NotFoundError(f"round {int(text)} is not an accepted round of the indexed blocks")
    return render_template(
        "round.html",
        **build_frame_values(snapshot, "Rounds", f"/v1/rounds/{accepted_round.round}"),
        round=accepted_round,
        place=snapshot.load_places([accepted_round.at])[accepted_round.at],
        changes=_list_lane_changes(snapshot, accepted_round),
    )


def _list_lane_changes(snapshot: ApiSnapshot, accepted: RoundAccepted) -> list[ReportedLaneChange]:
    """Return the lanes that the round changed, sorted by their index."""
    changes = []
    for word_index, word in accepted.words:
        earlier_rounds = snapshot.uow.rounds.list_accepted_up_to(word_index, accepted.round - 1, 1)
        previous_word = dict(earlier_rounds[0].words)[word_index] if earlier_rounds else 0
        for lane_index, (old, new) in enumerate(
            zip(unpack_lanes(previous_word), unpack_lanes(word), strict=True)
        ):
            node = None
            if old != new:
                node = snapshot.uow.rounds.get_node_at(word_index * LANES_PER_WORD + lane_index)
            if node is not None:
                changes.append(ReportedLaneChange(node, format_lane(old), format_lane(new)))
    return changes
