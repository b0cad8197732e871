"""A MkDocs hook by which a `nav` entry may name a folder instead of its pages.

`Decisions: decisions/` in mkdocs.yml becomes a section with all pages of docs/decisions/, ordered
by name. README.md comes first, as the index of the section.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> None:
    """Replace folders in the navigation by lists of their pages."""
    config.nav = _expand_folders(config.nav, Path(config.docs_dir))


def _expand_folders(entry: object, docs: Path) -> object:
    if isinstance(entry, list):
        return [_expand_folders(item, docs) for item in entry]
    if isinstance(entry, dict):
        return {title: _expand_folders(item, docs) for title, item in entry.items()}
    if isinstance(entry, str) and entry.endswith("/"):
        page_names = sorted(path.name for path in (docs / entry).glob("*.md"))
        page_names.sort(key=lambda name: name != "README.md")
        return [f"{entry}{name}" for name in page_names]
    return entry
