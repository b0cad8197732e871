"""MkDocs hooks: add the pages outside of docs/ that are linked, and rewrite the links to them.

Files of the repository keep links that work there: a page's links are read from where its source
lies, and written for where the page is. Files outside of docs/ are placed below `repository/`.
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
    """Let the links of a page lead to where their targets are on the site."""
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
    """Return where a file of the repository stands on the site."""
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS)
    return Path("repository") / target.relative_to(ROOT)


def _way(here: Path, target: Path) -> str:
    steps = [".."] * len(here.parts)
    return "/".join([*steps, *_place(target).parts])
