"""MkDocs hooks: add the linked files outside of docs/ to the site, and rewrite the links to them.

The links in the repository are relative to the source files and keep working there. On the site,
they are rewritten relative to the page. Files outside of docs/ are placed below `repository/`.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/ that pages link to."""
    todo = [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    visited = set(todo)
    while todo:
        source = todo.pop()
        for link in _LINK.findall(source.read_text("utf-8")):
            target = (source.parent / link).resolve()
            is_ours = target.is_relative_to(ROOT) and target.is_file()
            if is_ours and target not in visited and not target.is_relative_to(DOCS):
                visited.add(target)
                files.append(_added(config, target))
                todo += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Rewrite the links of a page so that they lead to their targets on the site."""
    source = Path(page.file.abs_src_path or "")

    def moved(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        if not target.is_relative_to(ROOT) or not target.is_file():
            return match[1]
        return _way(Path(page.file.src_uri).parent, target)

    return _LINK.sub(moved, markdown)


def _added(config: MkDocsConfig, source: Path) -> File:
    return File.generated(config, str(_place(source)), abs_src_path=str(source))


def _place(target: Path) -> Path:
    """Return the path on the site for a file of the repository."""
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS)
    return Path("repository") / target.relative_to(ROOT)


def _way(here: Path, target: Path) -> str:
    steps = [".."] * len(here.parts)
    return "/".join([*steps, *_place(target).parts])
