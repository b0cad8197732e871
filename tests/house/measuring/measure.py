"""Measures the codebase: the sizes of its packages, duplicates, and dangling references.

    make house                 this tree
    make house TREE=/a/clone   another one, of whatever age

The rows are those that the plan of the rooms began with; each is counted the same way in any tree.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from tests.house.measuring import measures as count
from tests.house.measuring.measures import Codebase

ROOT = Path(__file__).resolve().parents[3]
Row = Callable[[Codebase], str | list[str]]
ROWS: dict[str, tuple[str, Row]] = {
    "files of oracle/": ("-", lambda house: str(len(house.sources))),
    "files in the largest folder": ("15", count.find_largest_folder),
    "files in the largest room": ("-", count.find_largest_package),
    "imports among files of one room": ("186", count.find_most_connected_package),
    "arrows that point upward": ("0", count.arrows_left),
    "RPC stacks": ("1", count.rpc_stacks),
    "transaction pipelines": ("1", count.pipelines),
    "ABI readers": ("2", count.abi_readers),
    "files that exec": ("0", count.find_sql_text_modules),
    "files that import web3": ("some", count.web3_importers),
    "public class names used twice": ("0", count.doubled_names),
    "control by error text of our own": ("0", count.control_by_text),
    "files under 40 lines": ("15", count.short_files),
    "dangling citations": ("0", count.dangling_citations),
    "mutants": ("165", count.mutants),
    "largest page of docs/": ("20 KB", count.largest_page),
    "pages above 20 KB": ("0", count.long_pages),
    "docs by hand": ("290 KB", count.all_pages),
    "files of tests/": ("-", count.test_files),
}


def measure_rows(root: Path) -> dict[str, str | list[str]]:
    """Return the measure of each row in a tree: a number, or the places that were counted."""
    house = Codebase(root)
    return {name: row(house) for name, (_, row) in ROWS.items()}


def main(*arguments: str) -> int:
    """Print the table; with `--places` also the counted places."""
    paths = [argument for argument in arguments if argument != "--places"]
    figures = measure_rows(Path(paths[0]) if paths else ROOT)
    for name, value in figures.items():
        figure = value if isinstance(value, str) else str(len(value))
        sys.stdout.write(f"{name:<36}{figure:<34}{ROWS[name][0]}\n")
        if "--places" in arguments and not isinstance(value, str):
            sys.stdout.writelines(f"    {place}\n" for place in value)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
