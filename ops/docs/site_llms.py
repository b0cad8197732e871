"""A MkDocs hook that adds the list of pages for language models (`llms.txt`)."""

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

sys.path.append(str(Path(__file__).parent))
from reference.llms_text import render_site_text


def on_post_build(config: MkDocsConfig) -> None:
    """Write `llms.txt` beside the start page of the site."""
    (Path(config.site_dir) / "llms.txt").write_text(render_site_text(), "utf-8")
