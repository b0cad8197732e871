"""What came of many worlds: a table to read, and the same as JSON."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.simulation.playing import Played

Row = Mapping[str, float]

_COLUMNS = (
    ("worlds", "worlds"),
    ("rounds", "rounds"),
    ("doubles", "doubles"),
    ("lost", "lost"),
    ("unfinished", "unfin."),
    ("faults", "broken"),
    ("attempts", "attempts"),
    ("bumps", "bumps"),
    ("retargets", "retarg."),
    ("reorgs", "reorgs"),
    ("crashes", "crashes"),
    ("stalls", "stalls"),
    ("blocks", "blocks"),
    ("seconds", "CPU s"),
)
# What none of may be.
FAULTS = ("doubles", "lost", "unfinished", "faults")
_WIDTH = 9


def tally(found: Sequence[Played]) -> dict[str, float]:
    """Sum worlds up; `faults`: invariants that were broken, each counted once a world."""
    return {
        "worlds": len(found),
        "rounds": sum(one.setting.rounds for one in found),
        "doubles": sum(one.verdict.doubles for one in found),
        "lost": sum(one.verdict.lost for one in found),
        "unfinished": sum(one.verdict.unfinished for one in found),
        "faults": sum(len(one.faults) for one in found),
        "attempts": sum(sum(one.signed.values()) for one in found),
        "bumps": sum(one.signed.get("bump", 0) for one in found),
        "retargets": sum(one.signed.get("replacement", 0) for one in found),
        "reorgs": sum(one.passed.get("reorg", 0) for one in found),
        "crashes": _passed(found, "died"),
        "stalls": _passed(found, "stalled"),
        "blocks": sum(one.blocks for one in found),
        "seconds": round(sum(one.seconds for one in found), 1),
    }


def table(found: Mapping[str, Sequence[Played]]) -> str:
    """Show a line for each setting, and one for all."""
    every = [one for each in found.values() for one in each]
    lines = ["".join([f"{'setting':>16}", *(f"{title:>{_WIDTH}}" for _, title in _COLUMNS)])]
    for name, played in [*found.items(), ("all", every)]:
        row = tally(played)
        figures = (f"{row[column]:>{_WIDTH}.0f}" for column, _ in _COLUMNS)
        lines.append("".join([f"{name:>16}", *figures]))
    return "\n".join(lines)


def told(found: Mapping[str, Sequence[Played]], facts: Mapping[str, object]) -> dict[str, object]:
    """Say everything as JSON has it: which code, which worlds, what came of them."""
    every = [one for each in found.values() for one in each]
    return {
        **facts,
        "commit": commit(),
        "total": tally(every),
        "settings": {name: tally(played) for name, played in found.items()},
        "faulty": [
            {
                "setting": one.setting.name,
                "seed": one.seed,
                "doubles": one.verdict.doubles,
                "lost": one.verdict.lost,
                "unfinished": one.verdict.unfinished,
                "faults": list(one.faults),
            }
            for one in every
            if not one.is_clean
        ],
    }


def commit() -> str:
    """Name the code that is here: its commit, with a plus where files differ from it."""
    root = Path(__file__).parents[2]
    head = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "oracle", "tests")
    return head + ("+" if changed else "") if head else "unknown"


def _git(root: Path, *words: str) -> str:
    asked = subprocess.run(
        ["git", "-C", str(root), *words],  # noqa: S607 - whichever git is there
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() if asked.returncode == 0 else ""


def _passed(found: Sequence[Played], what: str) -> int:
    return sum(
        count for one in found for mishap, count in one.passed.items() if mishap.startswith(what)
    )
