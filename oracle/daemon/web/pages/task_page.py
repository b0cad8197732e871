"""The page of one task, and the target of a search."""

import re
from urllib.parse import quote

from fastapi.responses import RedirectResponse, Response

from oracle.chain.hex_names import HASH_INPUT_PATTERN
from oracle.daemon.web.pages.page_frame import PageRequest, address_prefix, page, task_key
from oracle.daemon.web.pages.status_line import framed
from oracle.queries.api.node_list import named
from oracle.queries.api.records.task_view import task_view
from oracle.queries.api.source import AmbiguousError, ApiSnapshot, NotKnownError

_SEE_OTHER = 303
_KEY = re.compile(HASH_INPUT_PATTERN)
_NUMBER = re.compile(r"[0-9]{1,18}")


def task_page(look: ApiSnapshot, asked: PageRequest) -> Response:
    """The history of a task, and the group that scored it."""
    key = task_key(asked.path["key"])
    task = look.uow.tasks.named([key]).get(key)
    if task is None:
        raise NotKnownError(f"no task {key} was seen")
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


def search_page(look: ApiSnapshot, asked: PageRequest) -> Response:
    """Redirect to the page of the address, task, round or prefix that was entered."""
    return RedirectResponse(place_of(look, asked.text("q") or ""), _SEE_OTHER)


def place_of(look: ApiSnapshot, text: str) -> str:
    """Return the path of the page that a search text denotes.

    A number is a round, 64 digits are a task, a label or fewer digits a node.

    Raises:
        QuestionError: the text is none of these.
        NotKnownError: no node has this prefix.
        AmbiguousError: several nodes match.
    """
    query = text.strip()
    if _NUMBER.fullmatch(query):
        return f"/rounds/{int(query)}"
    if _KEY.fullmatch(query):
        return f"/tasks/{task_key(query)}"
    labelled = look.source.labelled(query) if query else []
    if len(labelled) > 1:
        raise AmbiguousError(query, list(labelled))
    address = labelled[0] if labelled else named(look, address_prefix(query)).address
    return f"/nodes/{quote(address)}"
