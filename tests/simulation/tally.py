"""Sums up the results of many worlds, as a table and as JSON."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.simulation.world_runs import Played

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
# The counts that must be zero.
FAULTS = ("doubles", "lost", "unfinished", "faults")
_WIDTH = 9


def tally(played_worlds: Sequence[Played]) -> dict[str, float]:
    """Return the sums of the worlds' results.

    In `faults`, an invariant counts once per world.
    """
    return {
        "worlds": len(played_worlds),
        "rounds": sum(played.setting.rounds for played in played_worlds),
        "doubles": sum(played.verdict.doubles for played in played_worlds),
        "lost": sum(played.verdict.lost for played in played_worlds),
        "unfinished": sum(played.verdict.unfinished for played in played_worlds),
        "faults": sum(len(played.faults) for played in played_worlds),
        "attempts": sum(sum(played.signed.values()) for played in played_worlds),
        "bumps": sum(played.signed.get("bump", 0) for played in played_worlds),
        "retargets": sum(played.signed.get("replacement", 0) for played in played_worlds),
        "reorgs": sum(played.passed.get("reorg", 0) for played in played_worlds),
        "crashes": sum_mishaps(played_worlds, "died"),
        "stalls": sum_mishaps(played_worlds, "stalled"),
        "blocks": sum(played.blocks for played in played_worlds),
        "seconds": round(sum(played.seconds for played in played_worlds), 1),
    }


def table(played_by_setting: Mapping[str, Sequence[Played]]) -> str:
    """Return a table with a row for each setting, and one for all settings."""
    every = [world for played_worlds in played_by_setting.values() for world in played_worlds]
    lines = ["".join([f"{'setting':>16}", *(f"{title:>{_WIDTH}}" for _, title in _COLUMNS)])]
    for name, played in [*played_by_setting.items(), ("all", every)]:
        row = tally(played)
        figures = (f"{row[column]:>{_WIDTH}.0f}" for column, _ in _COLUMNS)
        lines.append("".join([f"{name:>16}", *figures]))
    return "\n".join(lines)


def summarize_runs(
    played_by_setting: Mapping[str, Sequence[Played]], facts: Mapping[str, object]
) -> dict[str, object]:
    """Return the JSON object with the code's version, the worlds and their results."""
    every = [world for played_worlds in played_by_setting.values() for world in played_worlds]
    return {
        **facts,
        "commit": commit(),
        "total": tally(every),
        "settings": {name: tally(played) for name, played in played_by_setting.items()},
        "faulty": [
            {
                "setting": world.setting.name,
                "seed": world.seed,
                "doubles": world.verdict.doubles,
                "lost": world.verdict.lost,
                "unfinished": world.verdict.unfinished,
                "faults": list(world.faults),
            }
            for world in every
            if not world.is_clean
        ],
    }


def commit() -> str:
    """Return the commit of the code, with a plus if files differ from the commit."""
    root = Path(__file__).parents[2]
    head = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", "oracle", "tests")
    return head + ("+" if changed else "") if head else "unknown"


def _git(root: Path, *arguments: str) -> str:
    completed = subprocess.run(
        ["git", "-C", str(root), *arguments],  # noqa: S607 - whichever git is there
        capture_output=True,
        text=True,
        check=False,
    )
    return completed.stdout.strip() if completed.returncode == 0 else ""


def sum_mishaps(played_worlds: Sequence[Played], what: str) -> int:
    return sum(
        count
        for played in played_worlds
        for mishap, count in played.passed.items()
        if mishap.startswith(what)
    )
