"""The pages of rounds: the accepted rounds, and the changes of each round."""

from typing import NamedTuple

from fastapi.responses import Response

from oracle.daemon.web.pages.page_frame import PageRequest, page
from oracle.daemon.web.pages.status_line import framed
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LANES_PER_WORD, lanes_of
from oracle.queries.api.records.node_past import said
from oracle.queries.api.source import ApiSnapshot, NotKnownError, QuestionError

_NEWEST = 50
_LONGEST_NUMBER = 18


class LaneChange(NamedTuple):
    """The change of one node's lane in a round; a lane without QoS means not selectable."""

    node: Address
    before: str
    after: str


def rounds_page(look: ApiSnapshot, _asked: PageRequest) -> Response:
    """The newest rounds that the contract accepted."""
    newest = list(reversed(look.uow.rounds.accepted(_NEWEST)))
    changed = {one.round: len(_changes(look, one)) for one in newest}
    return page(
        "rounds.html", **framed(look, "Rounds", "/v1/rounds"), rounds=newest, changed=changed
    )


def round_page(look: ApiSnapshot, asked: PageRequest) -> Response:
    """One round: its digest and transaction, and each node whose lane it changed."""
    text = asked.path["number"]
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        raise QuestionError("a round is a number")
    found = look.uow.rounds.accepted_round(int(text))
    if found is None:
        raise NotKnownError(f"round {int(text)} was not accepted in what is indexed")
    return page(
        "round.html",
        **framed(look, "Rounds", f"/v1/rounds/{found.round}"),
        round=found,
        place=look.places([found.at])[found.at],
        changes=_changes(look, found),
    )


def _changes(look: ApiSnapshot, accepted: RoundAccepted) -> list[LaneChange]:
    """Return the lanes that differ from those of the round before, by index."""
    found = []
    for number, word in accepted.words:
        earlier = look.uow.rounds.until(number, accepted.round - 1, 1)
        before = dict(earlier[0].words)[number] if earlier else 0
        for place, (old, new) in enumerate(zip(lanes_of(before), lanes_of(word), strict=True)):
            node = None
            if old != new:
                node = look.uow.rounds.node_at(number * LANES_PER_WORD + place)
            if node is not None:
                found.append(LaneChange(node, said(old), said(new)))
    return found
