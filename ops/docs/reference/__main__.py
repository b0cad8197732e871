"""Write every generated page into a folder: `python -m reference docs/reference`."""

import sys
from pathlib import Path

from reference.pages import PAGES


def main(folder: Path) -> None:
    """Write every page into `folder` and replace older versions."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / f"{name}.md").write_text(page(), "utf-8")
    print(f"wrote {len(PAGES)} pages to {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
