"""Everything that code, tests and pages cite exists: each path, anchor and short name."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
KINDS = {".py", ".sol", ".md", ".toml", ".yml", ".yaml", ".mjs", ".sh", ".patch", ""}
# Third-party files, and (below) this file, which contains wrong examples.
APART = ("node_modules/", "CHANGELOG.md", "AGENTS.md")
# Archived decisions are not edited, so their references may be outdated.
ARCHIVED = "docs/archive/"
# Tests of such checks, which deliberately name missing files.
SELF = (
    "tests/house/pages/test_citations.py",
    "tests/house/measuring/test_measure.py",
    "tests/house/test_vocabulary.py",
)
# Pages that a make target writes, as listed in .gitignore.
MADE = tuple(
    line.strip("/")
    for line in (ROOT / ".gitignore").read_text("utf-8").splitlines()
    if line.startswith(("/build/", "/docs/"))
)

# A page or a list of cases, by its path from the root, with or without an anchor.
CITED = re.compile(
    r"(?<![\w/.-])((?:docs|contracts)/[\w./-]+\.md|tests/[\w/-]+/cases\.toml)(?:#([\w-]+))?"
)
LINKED = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([\w-]+))?\)")
PAGE = re.compile(r"(?<![\w/.*-])((?:[\w.-]+/)*[\w-]+\.md)\b")
# A citation by number alone: a source, a decision of a plan, a section of a page.
ELSEWHERE = re.compile(
    r"(?<![\w/])seeds?[/ ]?00[0-4]\b|\b[Dd]ecisions? \d{1,2}\b(?!\d)|(?<![\w/.-])[\w-]+\.md`? \d"
)
DECIDED = re.compile(r"\b[Dd]ecisions?\s+(\d{4})(?:(?:, | and )(\d{4}))*")
CASE = re.compile(r"\bcases?\s+(F?\d{1,2})\b(?![.\d%])")
RULE = re.compile(r"\bI([1-9]\d?)\b(?=[:,;.)]| |$)", re.MULTILINE)

# Files that `make mutants` and `make release` write, named without their folder.
GENERATED = {"reliability.md", "RELEASE_NOTES.md", "THIRD_PARTY.md"}


@cache
def texts() -> dict[str, str]:
    """Return every text file of the repository by its path, except for third-party data."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],  # noqa: S607 - of the checkout
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    text_by_path = {}
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in KINDS and path.is_file() and not name.startswith((*APART, ARCHIVED)):
            try:
                text_by_path[name] = path.read_text("utf-8")
            except UnicodeDecodeError:
                continue
    return text_by_path


def pages() -> dict[str, str]:
    return {name: text for name, text in texts().items() if name.endswith(".md")}


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    plain_heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w -]", "", plain_heading).replace(" ", "-")


def without_code(text: str) -> str:
    """Return a page without its fenced blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@cache
def checkpoints(path: str) -> frozenset[str]:
    """Return the citable anchors of a file: headings of a page, numbers of cases."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".toml"):
        cases = tomllib.loads(text)["case"]
        return frozenset(str(case["number"]) for case in cases)
    bare = without_code(text)
    headings = (slug(heading) for heading in re.findall(r"^#+ (.+)$", bare, re.MULTILINE))
    return frozenset((*headings, *re.findall(r'id="([\w-]+)"', bare)))


def lost(path: str, anchor: str | None) -> bool:
    """Return whether a citation leads nowhere."""
    if not (ROOT / path).is_file():
        return True
    return anchor is not None and anchor not in checkpoints(path)


def citations(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the citations of a text, including those with a line break inside."""
    for match in CITED.finditer(text):
        yield match[1], match[2]


def test_every_cited_page_and_heading_exists():
    dangling = [
        f"{name}: {path}#{anchor}"
        for name, text in texts().items()
        if name not in SELF
        for path, anchor in citations(text)
        if lost(path, anchor) and not path.startswith(MADE)
    ]
    assert dangling == []


def test_every_page_link_has_a_target():
    broken = []
    for name, text in pages().items():
        for path, anchor in LINKED.findall(without_code(text)):
            if "://" in path or path.startswith("mailto:"):
                continue
            there = (ROOT / name).parent / path if path else ROOT / name
            target = there.resolve().relative_to(ROOT).as_posix()
            is_page = target.endswith(".md") and there.is_file()
            if target.startswith(MADE):
                continue
            if not there.exists() or (anchor and is_page and lost(target, anchor)):
                broken.append(f"{name}: {path}#{anchor}")
    assert broken == []


def test_every_page_named_in_a_text_exists_in_the_repository():
    names = {Path(name).name for name in texts()} | {"AGENTS.md", "CHANGELOG.md"} | GENERATED
    names |= {path.name for path in (ROOT / ARCHIVED).rglob("*.md")}
    strange = [
        f"{name}: {page}"
        for name, text in texts().items()
        if name not in SELF
        for page in PAGE.findall(text)
        if Path(page).name not in names and not page.startswith(MADE)
    ]
    assert strange == []


def test_no_text_cites_a_document_by_number_alone():
    strange = [
        f"{name}: {match[0]}"
        for name, text in texts().items()
        if name not in (*SELF, "docs/reference/sources.md")
        for match in ELSEWHERE.finditer(text)
    ]
    assert strange == []


def test_every_numbered_decision_exists():
    current = {path.name[:4] for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")}
    archived = {path.name[:4] for path in (ROOT / ARCHIVED / "decisions").glob("[0-9]*.md")}
    named = {
        (name, number)
        for name, text in texts().items()
        if name not in SELF
        for match in DECIDED.finditer(text)
        for number in re.findall(r"\d{4}", match[0])
    }
    assert {citation for citation in named if citation[1] not in current | archived} == set()
    # A page of the site cites no archived decision: the archive is not on the site.
    assert [
        citation
        for citation in named
        if citation[0].startswith("docs/") and citation[1] in archived
    ] == []


def test_every_decision_is_in_the_index_once():
    index = (ROOT / "docs" / "decisions" / "README.md").read_text("utf-8")
    named = re.findall(r"^- \[\d{4}[^\]]*\]\((\d{4}-[\w-]+\.md)\)", index, re.MULTILINE)
    pages = [path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md")]
    assert sorted(named) == sorted(pages)


def test_every_fault_case_named_in_a_text_is_listed():
    lists = [checkpoints(name) for name in texts() if name.endswith("/cases.toml")]
    listed = frozenset[str]().union(*lists)
    named = {
        (name, number)
        for name, text in texts().items()
        if name.endswith((".py", ".md")) and name not in SELF
        for number in CASE.findall(text)
    }
    assert len(lists) > 1
    assert {citation for citation in named if _in_list(citation[1]) not in listed} == set()


def _in_list(case: str) -> str:
    """Return the number of a fault case as the case list has it, for example f07 for F7."""
    return f"f{int(case[1:]):02}" if case.startswith("F") else case


def test_every_outbox_rule_named_in_a_text_has_a_heading():
    headings = checkpoints("docs/explanation/transactions.md")
    named = {
        (name, number)
        for name, text in texts().items()
        if name.startswith(("oracle/txmgr", "oracle/quorum", "tests/simulation", "docs/decisions"))
        for number in RULE.findall(text)
    }
    assert {citation for citation in named if f"i{citation[1]}" not in headings} == set()


@pytest.mark.parametrize(
    ("path", "anchor", "is_lost"),
    [
        ("docs/reference/scoring-rules.md", "numbers", False),
        ("docs/reference/scoring-rules.md", "no-such-heading", True),
        ("docs/reference/no-such-page.md", None, True),
        ("tests/faults/ingest/cases.toml", "64", False),
        ("tests/faults/ingest/cases.toml", "99", True),
    ],
)
def test_dangling_citation_is_detected(path, anchor, is_lost):
    assert lost(path, anchor) is is_lost


def test_heading_slug_equals_the_github_anchor():
    assert slug("What it costs") == "what-it-costs"
    assert slug("The relay's rules") == "the-relays-rules"
    assert slug("`[verify]`: levels (L0 to L6)") == "verify-levels-l0-to-l6"


@pytest.mark.parametrize(
    ("words", "is_strange"),
    [
        ("as decision 6 has it", True),
        ("as decision 0006 has it", False),
        ("(seeds/002, Queue)", True),
        ("(chain.md 3.9)", True),
        ("(docs/explanation/verification.md#l4) 3 times", False),
    ],
)
def test_citation_by_number_alone_is_detected(words, is_strange):
    assert (ELSEWHERE.search(words) is not None) is is_strange
