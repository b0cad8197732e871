"""The page of one task's draws, where a browser draws again."""

import re

from fastapi.responses import Response

from oracle.daemon.web.pages.page_frame import PageRequest, page
from oracle.daemon.web.pages.status_line import framed
from oracle.domain.ids import TaskKey
from oracle.queries.api.records.draw_view import draws_of
from oracle.queries.api.source import ApiLook, QuestionError

_KEY = re.compile(r"0x[0-9a-f]{64}")


def draw_page(look: ApiLook, asked: PageRequest) -> Response:
    """Every draw of a task, and what it is made of."""
    wanted = asked.path["key"].lower()
    if not _KEY.fullmatch(wanted):
        raise QuestionError("a task is 0x and 64 digits 0 to f")
    found = draws_of(look, TaskKey(wanted))
    return page(
        "draw.html",
        **framed(look, "Draws", f"/v1/draws/{wanted}"),
        task=wanted,
        draws=found.draws,
        can_draw=look.source.dispatch is not None,
    )
