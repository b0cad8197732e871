"""The page of one task, and the target of a search."""

import re
from urllib.parse import quote

from fastapi.responses import RedirectResponse, Response

from oracle.chain.hex_names import HASH_INPUT_PATTERN
from oracle.daemon.web.pages.page_frame import (
    PageRequest,
    parse_node_prefix,
    parse_task_key,
    render_template,
)
from oracle.daemon.web.pages.status_line import build_frame_values
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.records.task_view import build_task_answer
from oracle.queries.api.source import AmbiguousPrefixError, ApiSnapshot, NotFoundError

_SEE_OTHER = 303
_KEY = re.compile(HASH_INPUT_PATTERN)
_NUMBER = re.compile(r"[0-9]{1,18}")


def render_task(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show the history of a task, and the group that scored it."""
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
        results=task_results,
        places=snapshot.load_places(closed_result.closed_at for closed_result in task_results),
        is_drawn=bool(snapshot.uow.draws.list_for_task(task.key)),
        moments=build_task_answer(snapshot, task.key).moments,
    )


def redirect_search(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Redirect to the page of the address, task, round or prefix that was entered."""
    return RedirectResponse(resolve_search(snapshot, request.get_field("q") or ""), _SEE_OTHER)


def resolve_search(snapshot: ApiSnapshot, text: str) -> str:
    """Return the path of the page that a search text denotes.

    A number denotes a round, 64 hex digits a task, and a label or fewer hex digits a node.

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
    address = (
        labelled_nodes[0]
        if labelled_nodes
        else find_node_by_prefix(snapshot, parse_node_prefix(query)).address
    )
    return f"/nodes/{quote(address)}"
