"""Generates `llms.txt` from docs/README.md, as a list of pages for language models.

The `llms.txt` of a server lists the server's own paths, and names pages by their path in the
repository. The `llms.txt` of the site links them.
"""

import re
from collections.abc import Callable

from reference.parts import ROOT

SERVED_PATH = "oracle/daemon/web/pages/llms.txt"
_START_PAGE = ROOT / "docs" / "README.md"
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)(?:#[^)]*)?\)")
_SERVER_SECTION = """\
## This server

- [OpenAPI description](/v1/openapi.json): every path, parameter and field of the read API
- [API reference](/docs): the same as a page
- [Nodes](/v1/nodes): all nodes, ranked by QoS
- [Network](/v1/network): totals, and problems of the oracle
- [Rules](/v1/rules): every number of the scoring rules, with its meaning
- `qos-oracle mcp --url ADDRESS`: read-only tools by the Model Context Protocol

"""
_GENERATED_COMMENT = "\n<!-- made by `make reference` from docs/README.md -->\n"


def render_served_text(_: str) -> str:
    """Render the `llms.txt` that the daemon serves.

    The argument (its old text) is not used.
    """
    return _render_text(_format_page_path, _SERVER_SECTION) + _GENERATED_COMMENT


def render_site_text() -> str:
    """Render the `llms.txt` of the documentation site, with links to its pages."""
    return _render_text(_format_page_link, "")


def _render_text(format_link: Callable[[re.Match[str]], str], server_section: str) -> str:
    """Render title, summary and sections of the start page.

    `format_link` formats the links.
    """
    page_head, *sections = _START_PAGE.read_text("utf-8").split("\n## ")
    title, introduction, *_ = page_head.split("\n\n")
    summary = " ".join(introduction.split()).partition(". ")[0]
    lists = [
        f"## {_unwrap_list_entries(_LINK.sub(format_link, section))}\n" for section in sections
    ]
    return f"{title}\n\n> {summary}.\n\n{server_section}" + "\n".join(lists)


def _unwrap_list_entries(section: str) -> str:
    """Return a section in which each entry of a list is on one line."""
    return section.strip().replace("\n  ", " ")


def _format_page_path(match: re.Match[str]) -> str:
    path = (_START_PAGE.parent / match[2]).resolve().relative_to(ROOT)
    return f"{match[1]} (`{path}`)"


def _format_page_link(match: re.Match[str]) -> str:
    path = (_START_PAGE.parent / match[2]).resolve()
    is_outside_docs = not path.is_relative_to(_START_PAGE.parent)
    relative_path = path.relative_to(ROOT if is_outside_docs else _START_PAGE.parent)
    address = f"{'repository/' * is_outside_docs}{relative_path.with_suffix('').as_posix()}/"
    return f"[{match[1]}]({address.removesuffix('README/')})"
