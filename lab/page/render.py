"""Renders the lab's pages in the daemon's style, as self-contained HTML files."""

from functools import cache, partial
from pathlib import Path

from jinja2 import Environment

from oracle.daemon.web import pages as daemon_pages
from oracle.queries.text.templates import create_template_environment
from oracle.queries.text.text_tables import sanitize_text

_PAGE_FOLDER = Path(__file__).parent
_DAEMON_STYLE = Path(daemon_pages.__file__).parent / "static"
# Maximum length of a string from the history or the command line. Longer strings are truncated.
_MAX_TEXT = 200


def render_page(template: str, **values: object) -> str:
    """Render a template.

    A missing value raises an error.
    """
    return _get_templates().get_template(template).render(**values)


@cache
def _get_templates() -> Environment:
    templates = create_template_environment(_PAGE_FOLDER / "templates", _DAEMON_STYLE)
    templates.filters["foreign"] = partial(sanitize_text, max_length=_MAX_TEXT)
    return templates
