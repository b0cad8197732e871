"""Creates the Jinja2 environment for HTML, which escapes every inserted value."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def create_template_environment(*folders: Path) -> Environment:
    """Return a template environment that fails on missing values."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
