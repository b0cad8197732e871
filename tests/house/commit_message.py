"""Check a commit message: `python -m tests.house.commit_message FILE` (a commit-msg hook).

The first line is `area: imperative summary`, for example `api: cache responses for 10 s`.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

MAX_CHARACTERS = 72
SHAPE = re.compile(r"(?P<area>[a-z][\w./-]*(?:, [a-z][\w./-]*)*): (?P<summary>\S.*)")
# Messages that git generates.
WRITTEN_BY_GIT = ("Merge ", 'Revert "', "fixup! ", "squash! ", "amend! ")
# Imperatives whose ending resembles another verb form.
IMPERATIVES = frozenset(
    [
        "access",
        "address",
        "bring",
        "bypass",
        "compress",
        "discuss",
        "embed",
        "exceed",
        "express",
        "feed",
        "focus",
        "miss",
        "need",
        "pass",
        "ping",
        "press",
        "proceed",
        "process",
        "seed",
        "shed",
        "shred",
        "speed",
        "string",
        "suppress",
        "wed",
    ]
)
OTHER_FORM = re.compile(r"[a-z-]+(?:ed|ing|s)|an?|the|no|new|more|what|who", re.IGNORECASE)


def find_problem(message: str) -> str | None:
    """Return what is wrong with the first line of a commit message, or None if it is valid."""
    subject = message.partition("\n")[0].rstrip()
    if subject.startswith(WRITTEN_BY_GIT):
        return None
    if len(subject) > MAX_CHARACTERS:
        return f"{len(subject)} characters; expected at most {MAX_CHARACTERS}"
    match = SHAPE.fullmatch(subject)
    if match is None:
        return "expected `area: imperative summary`, for example `api: cache responses for 10 s`"
    summary = match["summary"]
    verb = summary.split()[0]
    if verb.lower() not in IMPERATIVES and OTHER_FORM.fullmatch(verb):
        return f"'{verb}' is not an imperative; expected for example `add`, `fix` or `remove`"
    if summary.endswith("."):
        return "the summary ends with a full stop; remove it"
    return None


def main(arguments: Sequence[str]) -> int:
    """Check the message in the file that git names; return the exit code."""
    problem = find_problem(Path(arguments[0]).read_text("utf-8"))
    if problem is not None:
        sys.stderr.write(f"commit message: {problem}\n")
    return int(problem is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
