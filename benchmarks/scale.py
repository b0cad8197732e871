"""Compute the costs of 10^6 to 10^9 events and 10^3 to 10^6 nodes by the documented model.

Run: .venv/bin/python benchmarks/scale.py [--set NAME=VALUE ...]
This script measures nothing. Each figure names the benchmark that prints it; set the figures of
your machine with --set. The output consists of the tables of docs/explanation/scale.md.
"""

import argparse
import sys
from dataclasses import dataclass, replace

EVENTS = (10**6, 10**8, 10**9)
NODES = (10**3, 10**4, 10**5, 10**6)
CORES = (1, 2, 4, 8)
HOUR_MICROSECONDS = 3_600e6  # µs


@dataclass(frozen=True)
class Figure:
    """A measured figure, and the benchmark that printed it."""

    value: float
    unit: str
    source: str


FIGURES = {
    "proven": Figure(37.2, "µs an event", "segments, every proof, alone"),
    "unproven": Figure(28.6, "µs an event", "segments, no proof, alone"),
    "writer": Figure(14.3, "µs an event", "segments, every proof, the writer beside workers"),
    "worker": Figure(31.4, "µs an event", "segments, every proof, a worker"),
    "light_writer": Figure(13.1, "µs an event", "segments, no proof, the writer beside workers"),
    "light_worker": Figure(17.3, "µs an event", "segments, no proof, a worker"),
    "ready": Figure(9.8, "µs an event", "writer: segments in memory"),
    "database": Figure(272, "bytes an event", "writer, SQLite"),
    "wire": Figure(1_840, "bytes an event", "receipts as JSON, before compression"),
    "fold": Figure(1.9, "µs an event", "fold"),
    "rebuild": Figure(33.8, "µs an event", "rebuild"),
    "export": Figure(26.6, "µs an event", "parquet"),
    "parquet": Figure(18.2, "bytes an event", "parquet, events alone"),
    "backtest": Figure(8.2, "µs an event", "rebuild, one system"),
}
# CPU seconds printed by `benchmarks/selection.py`, and by `benchmarks/round_cut.py --nodes N` for
# a change of one node in a hundred.
BY_NODES = {
    "one selection": ("0.0007", "0.001", "0.002", "0.011"),
    "root": ("0.002", "0.003", "0.02", "0.12"),
    "root after half of the nodes changed": ("0.008", "0.03", "0.37", "4.1"),
    "first root": ("0.01", "0.09", "0.71", "7.5"),
    "root after a start": ("0.007", "0.02", "0.18", "1.1"),
    "leaves of half of the nodes, on a thread between cuts": ("0.007", "0.05", "0.48", "4.2"),
    "root, after the thread": ("0.002", "0.003", "0.004", "0.004"),
    "round cut": ("0.01", "0.03", "0.12", "0.98"),
    "round cut after half of the nodes changed": ("0.01", "0.04", "0.51", "7.3"),
    "the same, after the thread": ("0.008", "0.02", "0.12", "1.5"),
    "statistics for metrics, on a background thread": ("0.05", "0.34", "3.8", "19"),
    "first page of nodes, at the next block": ("0.009", "0.01", "0.06", "0.14"),
    "the same where one node in a hundred changed": ("0.006", "0.01", "0.13", "0.63"),
}


def format_duration(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3600:.0f} s"
    return f"{hours * 60:.0f} min" if hours < 1 else f"{hours:.1f} h"


def format_size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def print_table(*rows: list[str]) -> None:
    header, *body = rows
    for row in (header, ["---"] * len(header), *body):
        print("| " + " | ".join(row) + " |")
    print()


def print_costs_by_events(value_by_name: dict[str, float]) -> None:
    def list_times(name: str) -> list[str]:
        return [
            format_duration(count * value_by_name[name] / HOUR_MICROSECONDS) for count in EVENTS
        ]

    def list_sizes(name: str) -> list[str]:
        return [format_size(count * value_by_name[name]) for count in EVENTS]

    microseconds = max(
        value_by_name["writer"], (value_by_name["writer"] + value_by_name["worker"]) / 2
    )
    durations = [format_duration(count * microseconds / HOUR_MICROSECONDS) for count in EVENTS]
    print_table(
        ["", *(f"10^{len(str(count)) - 1} events" for count in EVENTS)],
        ["backfill without workers, every proof", *list_times("proven")],
        ["backfill without workers, no proof", *list_times("unproven")],
        ["backfill with workers, 2 cores, every proof", *durations],
        ["responses of endpoints", *list_sizes("wire")],
        ["database", *list_sizes("database")],
        ["`resync rebuild`", *list_times("rebuild")],
        ["`export --parquet`, the first time", *list_times("export")],
        ["Parquet of events", *list_sizes("parquet")],
        ["`backtest` of Parquet, each system", *list_times("backtest")],
        ["the fold alone, as part of it", *list_times("fold")],
    )


def print_rates_by_cores(value_by_name: dict[str, float]) -> None:
    """Print the rates by cores: one writer process, and workers on other cores (decision 0210)."""
    rows = []
    for name, kind in (("every proof", ""), ("no proof", "light_")):
        writer_microseconds = value_by_name[f"{kind}writer"]
        worker_microseconds = value_by_name[f"{kind}worker"]
        rates = [
            1e6 / max(writer_microseconds, (writer_microseconds + worker_microseconds) / cores)
            for cores in CORES
        ]
        rows.append([name, *(f"{rate / 1000:.0f}" for rate in rates)])
        megabits = [f"{rate * value_by_name['wire'] * 8 / 1e6:.0f}" for rate in rates]
        rows.append(["… Mbit/s of the endpoint", *megabits])
    print_table(["thousand events/s", *(f"{cores} cores" for cores in CORES)], *rows)


def print_costs_by_nodes() -> None:
    print_table(
        ["", *(f"10^{len(str(count)) - 1} nodes" for count in NODES)],
        *([f"{name}, s", *cells] for name, cells in BY_NODES.items()),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    figures = dict(FIGURES)
    for change in parser.parse_args().set:
        name, _, value = change.partition("=")
        if name not in figures:
            parser.error(f"--set {name}: no such figure (available: {', '.join(figures)})")
        figures[name] = replace(figures[name], value=float(value))
    print_table(
        ["figure", "value", "printed by"],
        *(
            [name, f"{figure.value:g} {figure.unit}", figure.source]
            for name, figure in figures.items()
        ),
    )
    values = {name: figure.value for name, figure in figures.items()}
    print_costs_by_events(values)
    print_rates_by_cores(values)
    print_costs_by_nodes()
    return 0


if __name__ == "__main__":
    sys.exit(main())
