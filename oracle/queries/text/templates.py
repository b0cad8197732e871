"""Jinja2 templates that write HTML: everything put into one is escaped."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def template_environment(*folders: Path) -> Environment:
    """Return the templates of `folders`; rendering one with a missing value raises an error."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
