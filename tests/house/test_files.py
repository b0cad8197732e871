"""Rules about files: their length, first lines and names, and words that they must not contain."""

import ast
import re
import subprocess
import tokenize
from pathlib import Path

from tests.house.product import PACKAGES

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE}
ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 600
LEAST_WORDS = 3
# CONTRIBUTING.md, rule 9: no package without a subject.
DRAWERS = {"utils", "util", "common", "helpers", "helper", "base", "types", "misc", "shared"}
# A local path: a home folder, or this checkout.
MACHINES = re.compile(rf"/(?:home|Users)/[a-z]\w*/|/root/|{re.escape(str(ROOT))}/")


def list_tracked_files(*patterns: str) -> list[Path]:
    """Return the files that git knows; outside of a clone, the existing files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns],  # noqa: S607 - git is where it is
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    # A file that was just removed is still listed.
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def tracked_sources(folder: str) -> list[str]:
    return [
        str(path.relative_to(ROOT))
        for path in list_tracked_files(f"{folder}/**.py", f"{folder}/*.py")
    ]


CODE = sorted(
    {name for folder in (*PACKAGES, "tests", "benchmarks") for name in tracked_sources(folder)}
)


def read_first_docstring_line(name: str) -> str:
    """Return the first line of a module's docstring; only the first token of the file is read."""
    with (ROOT / name).open(encoding="utf-8") as file:
        tokens = tokenize.generate_tokens(file.readline)
        first = next(token for token in tokens if token.type not in _LAYOUT)
    if first.type != tokenize.STRING:
        return ""
    return str(ast.literal_eval(first.string)).strip().partition("\n")[0]


def test_every_file_is_within_the_line_limit():
    lengths = {name: len((ROOT / name).read_text("utf-8").splitlines()) for name in CODE}
    assert [name for name, lines in lengths.items() if lines > MAX_LINES] == []


def test_every_module_starts_with_its_purpose():
    assert [
        name for name in CODE if len(read_first_docstring_line(name).split()) < LEAST_WORDS
    ] == []


def test_no_module_has_a_catch_all_name():
    parts = {name: {part.removesuffix(".py") for part in Path(name).parts} for name in CODE}
    assert [name for name in CODE if parts[name] & DRAWERS] == []


def test_no_file_contains_a_machine_name():
    own = Path(__file__)
    texts = (path for path in list_tracked_files(".") if path != own)
    named = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in texts
        if (match := MACHINES.search(path.read_text("utf-8", "replace")))
    ]
    assert named == []


def test_lock_files_contain_no_registry_url():
    for path in list_tracked_files("**package-lock.json", "constraints/*.txt"):
        text = path.read_text("utf-8")
        # Funding and home page addresses of packages are not download locations.
        fetched = re.sub(r'"(?:url|homepage)": "[^"]*"', "", text)
        assert '"resolved"' not in fetched
        assert "://" not in fetched
