"""Creates the Jinja2 environment for HTML pages, which escapes every inserted value."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def create_template_environment(*folders: Path) -> Environment:
    """Create a template environment that fails on missing values."""
    return Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
