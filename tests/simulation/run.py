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

from tests.simulation.mishaps import Setting
from tests.simulation.settings import SETTINGS
from tests.simulation.tally import FAULTS, summarize_runs, table, tally
from tests.simulation.world_runs import Played, play, play_naive, template

# A database library creates much small garbage, so it is collected less often.
_GARBAGE = 50_000


def main() -> int:
    """Play the selected worlds, and return the exit code."""
    options = _parse_arguments()
    chosen = [SETTINGS[options.setting]] if options.setting else list(SETTINGS.values())
    worlds = -(-options.rounds // sum(setting.rounds for setting in chosen))
    seeds = range(1, worlds + 1) if options.seed is None else [options.seed]
    played_by_setting: dict[str, list[Played]] = {setting.name: [] for setting in chosen}
    began = time.monotonic()
    jobs = 1 if options.log else options.jobs
    with template() as template_path, ProcessPoolExecutor(jobs, initializer=_begin) as pool:
        # Seed by seed, so that an early stop has covered every setting.
        begun = {
            seed: [
                pool.submit(_play_seed, setting, seed, template_path, options)
                for setting in chosen
            ]
            for seed in seeds
        }
        for seed, worlds_of in begun.items():
            for world in worlds_of:
                played = world.result()
                played_by_setting[played.setting.name].append(played)
            _progress(seed, played_by_setting)
    return _end(options, played_by_setting, time.monotonic() - began)


def _parse_arguments() -> argparse.Namespace:
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
    """Prepare a worker process; the daemon's warnings are part of the simulation here."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.freeze()
    gc.set_threshold(_GARBAGE, 20, 20)


def _play_seed(
    setting: Setting, seed: int, template_path: Path, options: argparse.Namespace
) -> Played:
    log = _print_line if options.log else _silent
    began = time.process_time()
    played = (
        play_naive(setting, seed, log)
        if options.naive
        else play(setting, seed, template_path, log)
    )
    if not played.is_clean and not options.naive:
        _print_line(f"{setting.name}, seed {seed}: {played.verdict} {'; '.join(played.faults)}")
    return replace(played, seconds=time.process_time() - began)


def _progress(seed: int, played_by_setting: dict[str, list[Played]]) -> None:
    so_far = tally(
        [played for played_worlds in played_by_setting.values() for played in played_worlds]
    )
    wrong = ", ".join(f"{so_far[fault]:.0f} {fault}" for fault in FAULTS)
    rounds = so_far["rounds"]
    seconds = so_far["seconds"]
    _print_line(f"up to seed {seed}: {rounds:.0f} rounds, {wrong}, {seconds:.0f} s of CPU")


def _end(
    options: argparse.Namespace, played_by_setting: dict[str, list[Played]], seconds: float
) -> int:
    """Print the results, and return the exit code."""
    _print_line(table(played_by_setting))
    total = tally(
        [played for played_worlds in played_by_setting.values() for played in played_worlds]
    )
    rounds = total["rounds"]
    worked = max(total["seconds"], 0.001)
    _print_line(f"{rounds / seconds:.1f} rounds a second, {rounds / worked:.1f} a second of CPU")
    if options.json is not None:
        facts = {
            "publisher": "naive" if options.naive else "outbox",
            "command": " ".join(["python -m tests.simulation.run", *sys.argv[1:]]),
            "wall_seconds": round(seconds, 1),
        }
        options.json.write_text(
            json.dumps(summarize_runs(played_by_setting, facts), indent=2) + "\n"
        )
    if options.naive:
        return 0 if total["doubles"] else 1
    return 1 if any(total[fault] for fault in FAULTS) else 0


def _silent(_: str) -> None:
    """Print nothing."""


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
