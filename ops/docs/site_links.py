"""MkDocs hooks that add linked files from outside of docs/ to the site.

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
    """Add the files outside of docs/ to which pages link."""
    pending_pages = [
        Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path
    ]
    visited_pages = set(pending_pages)
    while pending_pages:
        source_page = pending_pages.pop()
        for link in _LINK.findall(source_page.read_text("utf-8")):
            target_page = (source_page.parent / link).resolve()
            is_in_repository = target_page.is_relative_to(ROOT) and target_page.is_file()
            if (
                is_in_repository
                and target_page not in visited_pages
                and not target_page.is_relative_to(DOCS)
            ):
                visited_pages.add(target_page)
                files.append(_create_site_file(config, target_page))
                pending_pages += [target_page] if target_page.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Rewrite the links of a page to their targets on the site."""
    source_page = Path(page.file.abs_src_path or "")

    def rewrite_link(match: re.Match[str]) -> str:
        target_page = (source_page.parent / match[1]).resolve()
        if not target_page.is_relative_to(ROOT) or not target_page.is_file():
            return match[1]
        return _get_relative_link(Path(page.file.src_uri).parent, target_page)

    return _LINK.sub(rewrite_link, markdown)


def _create_site_file(config: MkDocsConfig, source: Path) -> File:
    return File.generated(config, str(_get_site_path(source)), abs_src_path=str(source))


def _get_site_path(target: Path) -> Path:
    """Return the path of a repository's file on the site."""
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS)
    return Path("repository") / target.relative_to(ROOT)


def _get_relative_link(page_folder: Path, target: Path) -> str:
    parent_steps = [".."] * len(page_folder.parts)
    return "/".join([*parent_steps, *_get_site_path(target).parts])
