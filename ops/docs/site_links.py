"""MkDocs hooks that add linked files outside of docs/ to the site, and rewrite the links.

In the repository, links are relative to the source files and work there. On the site, they are
rewritten to be relative to the page. Files outside of docs/ are placed below `repository/`.
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
    pending = [
        Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path
    ]
    visited = set(pending)
    while pending:
        source = pending.pop()
        for link in _LINK.findall(source.read_text("utf-8")):
            target = (source.parent / link).resolve()
            is_in_repository = target.is_relative_to(ROOT) and target.is_file()
            if is_in_repository and target not in visited and not target.is_relative_to(DOCS):
                visited.add(target)
                files.append(_create_site_file(config, target))
                pending += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Rewrite the links of a page so that they lead to their targets on the site."""
    source = Path(page.file.abs_src_path or "")

    def rewrite_link(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        if not target.is_relative_to(ROOT) or not target.is_file():
            return match[1]
        return _get_relative_link(Path(page.file.src_uri).parent, target)

    return _LINK.sub(rewrite_link, markdown)


def _create_site_file(config: MkDocsConfig, source: Path) -> File:
    return File.generated(config, str(_get_site_path(source)), abs_src_path=str(source))


def _get_site_path(target: Path) -> Path:
    """Return the path on the site for a file of the repository."""
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS)
    return Path("repository") / target.relative_to(ROOT)


def _get_relative_link(page_folder: Path, target: Path) -> str:
    parent_steps = [".."] * len(page_folder.parts)
    return "/".join([*parent_steps, *_get_site_path(target).parts])
