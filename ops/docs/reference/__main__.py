"""Writes every generated page into a folder (`python -m reference docs/reference`)."""

import sys
from pathlib import Path

from reference.pages import PAGES, PARTS
from reference.parts import ROOT


def main(folder: Path) -> None:
    """Write every generated page to `folder`, and generated parts into other pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / f"{name}.md").write_text(page(), "utf-8")
    for path, update in PARTS.items():
        page_path = ROOT / path
        page_path.write_text(update(page_path.read_text("utf-8")), "utf-8")
    print(f"wrote {len(PAGES)} pages to {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
