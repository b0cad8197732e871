"""The page of one task's draws, which a browser can repeat."""

from fastapi.responses import Response

from oracle.daemon.web.pages.page_frame import PageRequest, parse_task_key, render_template
from oracle.daemon.web.pages.status_line import build_frame_values
from oracle.queries.api.records.draw_view import list_task_draws
from oracle.queries.api.source import ApiSnapshot


def render_task_draws(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show all draws of a task, and their inputs."""
    task = parse_task_key(request.path["key"])
    task_draws = list_task_draws(snapshot, task)
    return render_template(
        "draw.html",
        **build_frame_values(snapshot, "Draws", f"/v1/draws/{task}"),
        task=task,
        draws=task_draws.draws,
        can_draw=snapshot.source.dispatch is not None,
    )
