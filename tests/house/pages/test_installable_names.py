"""qos-oracle is on no package index, so no text recommends installing it by name."""

import re

from tests.house.product import PACKAGES, ROOT

PLACES = ("README.md", "CONTRIBUTING.md", "docs", *PACKAGES, "config", "ops")
BY_NAME = re.compile(r"""pip3? install[^\n]*?[\s'"]qos[-_]oracle(?![-_./\w])""")


def texts():
    for place in PLACES:
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix in {".md", ".py", ".toml", ".html", ".yaml", ".yml", ".service"}:
                yield file


def test_no_text_suggests_installing_from_the_package_index():
    named = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in texts()
        for line in path.read_text("utf-8").splitlines()
        if BY_NAME.search(line)
    ]
    assert named == []
