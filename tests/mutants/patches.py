"""Reads the patches: the defence that each one removes, and the tests that must fail."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
# Results of a run are not in git; run the mutants again to get them.
BUILD = ROOT / "build"
REPORT = BUILD / "reliability.md"

_OF_A_CHANGE = 6

_FIELD = re.compile(r"# (Build|Case|Defence|Outbox|Quick|Room|Test): (.+)")
# Of a fault case: c (ingest) or f (publishing) and its number; of any other defence: a number, or
# other letters and one.
_NAME = re.compile(r"(\d{3}|[a-z]{1,2}\d\d|[a-z]{3,}-\d\d)(-[a-z0-9]+)+")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A patch that removes one defence, and the tests that must then fail.

    `tests` are node ids; one with parameters stands for all of them, of which one must fail.
    `cases`: the fault cases whose defence it is, "07" or "f07". `rules`: the rules of the outbox
    that it breaks, "M1". `is_quick`: part of the bounded run. `build`: the contract to compile
    after patching.
    """

    path: Path
    defence: str
    room: str
    tests: tuple[str, ...]
    cases: tuple[str, ...]
    rules: tuple[str, ...]
    is_quick: bool
    build: str | None

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def patched(self) -> list[str]:
        """Return the files that the patch changes, by path from the root."""
        return re.findall(r"^\+\+\+ b/(.+)$", self.path.read_text("utf-8"), re.MULTILINE)


def list_mutants() -> list[Mutant]:
    """Return every mutant, by number.

    Raises:
        ValueError: a patch has no proper name or header.
    """
    return [_read(path) for path in sorted(FOLDER.glob("*.patch"))]


def list_affected_mutants() -> list[Mutant]:
    """Return some mutants whose code or tests the last commit or the working tree changes.

    At most six: a change that concerns many is covered by the nightly run.
    """
    command = ["git", "diff", "--name-only", "HEAD~1"]
    # A shallow clone has only one commit.
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    changed = {*completed.stdout.splitlines()}
    touched_mutants = [
        mutant
        for mutant in list_mutants()
        if changed.intersection([*mutant.patched, *(t.partition("::")[0] for t in mutant.tests)])
    ]
    return touched_mutants[:: -(-len(touched_mutants) // _OF_A_CHANGE) or 1]


def _read(path: Path) -> Mutant:
    header, _, _ = path.read_text("utf-8").partition("\n--- a/")
    header_fields: dict[str, list[str]] = {}
    for line in header.splitlines():
        field = _FIELD.fullmatch(line)
        if field is None:
            raise ValueError(f"{path.name}: cannot read the header line {line!r}")
        header_fields.setdefault(field[1], []).append(field[2])
    if not _NAME.fullmatch(path.stem) or not {"Defence", "Room", "Test"} <= header_fields.keys():
        raise ValueError(f"{path.name}: a number and a name; Defence, Room and Test in the header")
    return Mutant(
        path=path,
        defence=" ".join(header_fields["Defence"]),
        room=header_fields["Room"][0],
        tests=tuple(header_fields["Test"]),
        cases=tuple(header_fields.get("Case", [])),
        rules=tuple(header_fields.get("Outbox", [])),
        is_quick="Quick" in header_fields,
        build=header_fields.get("Build", [None])[0],
    )


def try_apply(mutant: Mutant, tree: Path, *, only_check: bool = False) -> str | None:
    """Apply the patch to a tree, or only check that it applies; return git's error, or None."""
    check = ["--check"] if only_check else []
    done = subprocess.run(
        ["git", "apply", *check, str(mutant.path)],  # noqa: S607 - git is where it is
        cwd=tree,
        # Where the tree lies inside of some clone, its own folder is still the top.
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else done.stderr.strip()
