"""The page of one task, and where a search leads."""

import re
from urllib.parse import quote

from fastapi.responses import RedirectResponse, Response

from oracle.daemon.web.pages.nodes_page import prefix_of
from oracle.daemon.web.pages.page_frame import PageRequest, page
from oracle.daemon.web.pages.status_line import framed
from oracle.domain.ids import TaskKey
from oracle.queries.api.node_list import named
from oracle.queries.api.records.task_view import task_view
from oracle.queries.api.source import ApiLook, NotKnownError, QuestionError

_SEE_OTHER = 303
_KEY = re.compile(r"0x[0-9a-f]{64}")
_NUMBER = re.compile(r"[0-9]{1,18}")


def task_page(look: ApiLook, asked: PageRequest) -> Response:
    """The life of a task, and the group that scored it."""
    wanted = asked.path["key"].lower()
    if not _KEY.fullmatch(wanted):
        raise QuestionError("a task is 0x and 64 digits 0 to f")
    task = look.uow.tasks.named([TaskKey(wanted)]).get(TaskKey(wanted))
    if task is None:
        raise NotKnownError(f"no task {wanted} was seen")
    results = [] if task.group is None else look.uow.results.of_group(task.group)
    mine = [one for one in results if any(member.task == task.key for member in one.members)]
    return page(
        "task.html",
        **framed(look, None, f"/v1/tasks/{task.key}"),
        task=task,
        results=mine,
        places=look.places(one.closed_at for one in mine),
        is_drawn=bool(look.uow.draws.of_task(task.key)),
        moments=task_view(look, task.key).moments,
    )


def search_page(look: ApiLook, asked: PageRequest) -> Response:
    """Lead to what an address, a task, a round or the beginning of one stands for."""
    return RedirectResponse(place_of(look, asked.text("q") or ""), _SEE_OTHER)


def place_of(look: ApiLook, text: str) -> str:
    """Return the path of the page that a text stands for.

    A number is a round, 64 digits are a task, fewer an address or the beginning of one.

    Raises:
        QuestionError: it is nothing of these.
        NotKnownError: nothing begins so.
        AmbiguousError: several nodes do.
    """
    wanted = text.strip().lower()
    if _NUMBER.fullmatch(wanted):
        return f"/rounds/{int(wanted)}"
    if _KEY.fullmatch(wanted):
        return f"/tasks/{wanted}"
    return f"/nodes/{quote(named(look, prefix_of(wanted)).address)}"
