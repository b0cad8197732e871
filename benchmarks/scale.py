"""What 10^6, 10^8 and 10^9 events, and 10^3 to 10^6 nodes, cost: the model of the docs, computed.

Run: .venv/bin/python benchmarks/scale.py [--set NAME=VALUE ...]
It measures nothing. Each figure names the benchmark that prints it; put in what yours printed.
Prints the tables of docs/explanation/scale.md as they stand there.
"""

import argparse
import sys
from dataclasses import dataclass, replace

EVENTS = (10**6, 10**8, 10**9)
NODES = (10**3, 10**4, 10**5, 10**6)
CORES = (1, 2, 4, 8)
HOUR = 3_600e6  # µs


@dataclass(frozen=True)
class Figure:
    """One measured number; `of` says of what: ours as it is, or a prototype.

    Loaded: others used the machine, so that it is an upper bound.
    """

    value: float
    unit: str
    of: str
    source: str


FIGURES = {
    "proven": Figure(49.2, "µs an event", "ours", "backfill, true blocks, every proof, inline"),
    "unproven": Figure(27.1, "µs an event", "ours", "backfill, true blocks, no proof, inline"),
    "writer": Figure(16.5, "µs an event", "prototype", "segments ready, wide rows"),
    "worker": Figure(26.8, "µs an event", "prototype", "a worker, every proof, pure Python"),
    "lean_writer": Figure(10.5, "µs an event", "prototype", "segments ready, narrow rows"),
    "native_worker": Figure(11.8, "µs an event", "prototype", "a worker, every proof, native"),
    "database": Figure(271, "bytes an event", "ours", "writer, SQLite"),
    "wire": Figure(1_840, "bytes an event", "ours", "receipts as JSON, before compression"),
    "fold": Figure(2.5, "µs an event", "ours", "fold"),
    "rebuild": Figure(50, "µs an event", "ours, loaded", "rebuild"),
    "export": Figure(31.4, "µs an event", "ours, loaded", "parquet"),
    "parquet": Figure(18.3, "bytes an event", "ours", "parquet, events alone"),
    "backtest": Figure(16.2, "µs an event", "ours, loaded", "rebuild, one system"),
    "select": Figure(0.132, "µs a node", "ours", "selection, 100,000 nodes: 13.2 ms"),
}


def duration(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3600:.0f} s"
    return f"{hours * 60:.0f} min" if hours < 1 else f"{hours:.1f} h"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def table(*rows: list[str]) -> None:
    head, *others = rows
    for row in (head, ["---"] * len(head), *others):
        print("| " + " | ".join(row) + " |")
    print()


def by_events(of: dict[str, float]) -> None:
    def times(name: str) -> list[str]:
        return [duration(count * of[name] / HOUR) for count in EVENTS]

    def sizes(name: str) -> list[str]:
        return [size(count * of[name]) for count in EVENTS]

    two = max(of["lean_writer"], (of["lean_writer"] + of["native_worker"]) / 2)
    table(
        ["", *(f"10^{len(str(count)) - 1} events" for count in EVENTS)],
        ["backfill without workers, every proof", *times("proven")],
        ["backfill without workers, no proof", *times("unproven")],
        ["(segments, 2 cores, every proof)", *(duration(n * two / HOUR) for n in EVENTS)],
        ["answers of endpoints", *sizes("wire")],
        ["database", *sizes("database")],
        ["`resync rebuild`", *times("rebuild")],
        ["`export --parquet`, the first time", *times("export")],
        ["Parquet of events", *sizes("parquet")],
        ["`backtest` of Parquet, each system", *times("backtest")],
        ["of it the fold alone", *times("fold")],
    )


def by_cores(of: dict[str, float]) -> None:
    """One chain: the writer is one process, workers share what is left (decision 0210)."""
    rows = []
    for writer, worker in (("writer", "worker"), ("lean_writer", "native_worker")):
        w, p = of[writer], of[worker]
        rates = [1e6 / max(w, (w + p) / cores) for cores in CORES]
        name = f"writer {w:g} µs, worker {p:g} µs"
        rows.append([name, *(f"{rate / 1000:.0f}" for rate in rates)])
        wires = [f"{rate * of['wire'] * 8 / 1e6:.0f}" for rate in rates]
        rows.append(["… Mbit/s of the endpoint", *wires])
    table(["thousand events/s", *(f"{cores} cores" for cores in CORES)], *rows)


def by_nodes(of: dict[str, float]) -> None:
    rows = [f"{count * of['select'] / 1000:.1f} ms" for count in NODES]
    table(
        ["", *(f"10^{len(str(count)) - 1} nodes" for count in NODES)],
        ["one selection, by proportion from 10^5", *rows],
        ["round cut, census, first page of `nodes`", *["not measured"] * len(NODES)],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    figures = dict(FIGURES)
    for change in parser.parse_args().set:
        name, _, value = change.partition("=")
        if name not in figures:
            parser.error(f"--set {name}: one of {', '.join(figures)}")
        figures[name] = replace(figures[name], value=float(value))
    table(
        ["figure", "value", "of", "printed by"],
        *([name, f"{f.value:g} {f.unit}", f.of, f.source] for name, f in figures.items()),
    )
    known = {name: figure.value for name, figure in figures.items()}
    by_events(known)
    by_cores(known)
    by_nodes(known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
