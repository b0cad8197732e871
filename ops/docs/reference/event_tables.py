"""Generates parts of docs/reference/events-and-jsonl.md (`make reference`).

The table of event types comes from the event classes and their docstrings, the list of types from
the kinds of their fields. Each generated part is between two comments with its name.
"""

import re
from collections.abc import Callable, Mapping
from inspect import getdoc
from itertools import groupby
from pathlib import Path

from oracle.domain.events.event_fields import FieldKind, get_field_kinds, get_required_fields
from oracle.domain.events.network_events import FIELD_KINDS, TYPE_BY_NAME, DomainEvent
from reference.markdown import render_table
from reference.parts import replace_parts

PAGE = "docs/reference/events-and-jsonl.md"
_CITATION = re.compile(r"docs/(reference/)?([\w/.-]+?\.md)(?:#([\w-]+))?")


def render_event_table() -> str:
    """Render the table of all event types as Markdown."""
    rows = [
        (f"`{name}`", _format_field_names(kind), _format_meaning(kind))
        for name, kind in TYPE_BY_NAME.items()
    ]
    return render_table(("type", "fields beside position and time", "meaning"), rows)


def render_field_types() -> str:
    """Render the types of the fields as a Markdown list.

    Fields of the same kind share a line.
    """
    position_by_kind = {
        kind: position for position, kind in enumerate(dict.fromkeys(FIELD_KINDS.values()))
    }

    def get_position(item: tuple[str, FieldKind]) -> int:
        return position_by_kind[item[1]]

    lines = []
    for _, group in groupby(sorted(FIELD_KINDS.items(), key=get_position), get_position):
        grouped_fields = list(group)
        field_names = ", ".join(f"`{name}`" for name, _ in grouped_fields)
        lines.append(f"- {field_names}: {grouped_fields[0][1].description}.")
    return "\n".join(lines) + "\n"


PARTS: Mapping[str, Callable[[], str]] = {
    "vocabulary": render_event_table,
    "types": render_field_types,
}
_PART_NAMES = re.compile("|".join(PARTS))


def replace_generated_parts(page: str) -> str:
    """Return the page after its generated parts were replaced.

    Raises:
        ValueError: the comments around a part are missing in the page.
    """
    for name in PARTS:
        start_comment = f"<!-- {name}: made by `make reference` -->\n"
        end_comment = f"<!-- end of {name} -->"
        if start_comment not in page or end_comment not in page:
            raise ValueError(
                f"{PAGE}: the comments around the {name} are missing: "
                f"{start_comment.strip()} … {end_comment}"
            )
    return replace_parts(page, _PART_NAMES, lambda match: PARTS[match[0]]())


def _format_field_names(kind: type[DomainEvent]) -> str:
    required_names = get_required_fields(kind)
    optional_names = [name for name in get_field_kinds(kind) if name not in required_names]
    return "; ".join(", ".join(names) for names in (required_names, optional_names) if names)


def _format_meaning(kind: type[DomainEvent]) -> str:
    """Return the docstring of an event class.

    Pages that it cites become links relative to PAGE.
    """
    return _CITATION.sub(_format_link, " ".join((getdoc(kind) or "").split()))


def _format_link(citation: re.Match[str]) -> str:
    is_in_reference, page, anchor = citation.groups()
    link_target = page if is_in_reference else f"../{page}"
    name = Path(page).stem
    text = f"decision {name[:4]}" if "decisions/" in page else (anchor or name).replace("-", " ")
    return f"[{text}]({link_target}{f'#{anchor}' if anchor else ''})"
