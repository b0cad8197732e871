"""Plays worlds: `make sim`, or one seed again.

    python -m tests.simulation.run [--rounds 10000] [--seed 7 --setting two --log] [--naive]
                                   [--jobs 2] [--json FILE]

Prints a line for each setting. Exit code 1: the outbox doubled, lost or stranded something, or
broke an invariant; with --naive: no double was seen, which says something of the harness.
"""

import argparse
import gc
import json
import logging
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import structlog

from tests.simulation.playing import Played, play, play_naive, template
from tests.simulation.settings import SETTINGS
from tests.simulation.tally import FAULTS, table, tally, told
from tests.simulation.weather import Setting

# The garbage of a database library is many and small; it is looked for less often.
_GARBAGE = 50_000


def main() -> int:
    """Play what was asked for; the exit code."""
    asked = _asked()
    chosen = [SETTINGS[asked.setting]] if asked.setting else list(SETTINGS.values())
    worlds = -(-asked.rounds // sum(one.rounds for one in chosen))
    seeds = range(1, worlds + 1) if asked.seed is None else [asked.seed]
    found: dict[str, list[Played]] = {one.name: [] for one in chosen}
    began = time.monotonic()
    jobs = 1 if asked.log else asked.jobs
    with template() as made, ProcessPoolExecutor(jobs, initializer=_begin) as pool:
        # Seed by seed: whoever stops it early has seen every setting.
        begun = {
            seed: [pool.submit(_one, one, seed, made, asked) for one in chosen] for seed in seeds
        }
        for seed, worlds_of in begun.items():
            for world in worlds_of:
                played = world.result()
                found[played.setting.name].append(played)
            _progress(seed, found)
    return _end(asked, found, time.monotonic() - began)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Seeded chaos for the outbox.")
    parser.add_argument("--rounds", type=int, default=10_000, help="pushes over all settings")
    parser.add_argument("--setting", choices=sorted(SETTINGS), help="only this one")
    parser.add_argument("--seed", type=int, help="only this one; else from 1 up")
    parser.add_argument("--log", action="store_true", help="say what happens, block by block")
    parser.add_argument("--naive", action="store_true", help="the naive publisher instead")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--json", type=Path, help="write the figures and the commit here")
    return parser.parse_args()


def _begin() -> None:
    """Prepare a process that plays; what a daemon would warn of is part of the story here."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.freeze()
    gc.set_threshold(_GARBAGE, 20, 20)


def _one(setting: Setting, seed: int, made: Path, asked: argparse.Namespace) -> Played:
    log, began = _say if asked.log else _silent, time.process_time()
    played = play_naive(setting, seed, log) if asked.naive else play(setting, seed, made, log)
    if not played.is_clean and not asked.naive:
        _say(f"{setting.name}, seed {seed}: {played.verdict} {'; '.join(played.faults)}")
    return replace(played, seconds=time.process_time() - began)


def _progress(seed: int, found: dict[str, list[Played]]) -> None:
    so_far = tally([one for each in found.values() for one in each])
    wrong = ", ".join(f"{so_far[one]:.0f} {one}" for one in FAULTS)
    rounds, seconds = so_far["rounds"], so_far["seconds"]
    _say(f"up to seed {seed}: {rounds:.0f} rounds, {wrong}, {seconds:.0f} s of CPU")


def _end(asked: argparse.Namespace, found: dict[str, list[Played]], seconds: float) -> int:
    """Show the figures; the exit code."""
    _say(table(found))
    total = tally([one for each in found.values() for one in each])
    rounds, worked = total["rounds"], max(total["seconds"], 0.001)
    _say(f"{rounds / seconds:.1f} rounds a second, {rounds / worked:.1f} a second of CPU")
    if asked.json is not None:
        facts = {
            "publisher": "naive" if asked.naive else "outbox",
            "command": " ".join(["python -m tests.simulation.run", *sys.argv[1:]]),
            "wall_seconds": round(seconds, 1),
        }
        asked.json.write_text(json.dumps(told(found, facts), indent=2) + "\n")
    if asked.naive:
        return 0 if total["doubles"] else 1
    return 1 if any(total[one] for one in FAULTS) else 0


def _silent(_: str) -> None:
    """Say nothing."""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
