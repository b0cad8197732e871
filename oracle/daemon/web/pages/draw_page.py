"""The page of one task's draws, which a browser can repeat."""

from fastapi.responses import Response

from oracle.daemon.web.pages.page_frame import PageRequest, page, task_key
from oracle.daemon.web.pages.status_line import framed
from oracle.queries.api.records.draw_view import draws_of
from oracle.queries.api.source import ApiSnapshot


def draw_page(look: ApiSnapshot, asked: PageRequest) -> Response:
    """All draws of a task, and their inputs."""
    task = task_key(asked.path["key"])
    found = draws_of(look, task)
    return page(
        "draw.html",
        **framed(look, "Draws", f"/v1/draws/{task}"),
        task=task,
        draws=found.draws,
        can_draw=look.source.dispatch is not None,
    )
