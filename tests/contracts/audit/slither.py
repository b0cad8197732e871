"""Slither over the deployed contracts: `make slither`; baseline.toml lists what is accepted.

Exit code 1: there is a new finding, or one of the baseline is gone. With --write the findings
become the baseline; new ones have no reason, and the tests fail until you write it.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.contracts.audit import layouts, solhint
from tests.contracts.audit.findings import (
    BASELINE,
    HEAD,
    Finding,
    find_differences,
    load_baseline,
    rewrite_baseline,
)
from tests.contracts.audit.tools import (
    BUILD,
    ROOT,
    compile_like_forge,
    get_program_path,
    install_programs,
    list_deployed_sources,
    run_and_capture,
)


def main(flags: Sequence[str]) -> int:
    """Print the differences from the baselines: of both analysers, and of the storage layout."""
    install_programs()
    results = {"slither": [*list_findings()], "solhint": [*solhint.list_findings()]}
    if "--write" in flags:
        layouts.write(BUILD / "slither")
        text = "\n".join(rewrite_baseline(tool, results[tool]) for tool in results)
        BASELINE.write_text(f"{HEAD}\n{text}", "utf-8")
        return 0
    lines = [
        f"{tool}: {line}"
        for tool, findings in results.items()
        for line in find_differences(findings, load_baseline(tool))
    ]
    lines += (f"storage: {line}" for line in layouts.find_moved_fields(BUILD / "slither"))
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("" if lines else "slither, solhint, storage: as the baseline has it\n")
    return 1 if lines else 0


def list_findings() -> Iterator[Finding]:
    """Yield Slither's findings.

    Raises:
        RuntimeError: it did not get to the contracts.
    """
    root = compile_like_forge("slither", list_deployed_sources())
    (root / "foundry.toml").write_text("[profile.default]\n", "utf-8")
    # Slither looks for sources at the paths that the compiler reports.
    for name, place in (
        ("contracts", "contracts"),
        ("@openzeppelin", "node_modules/@openzeppelin"),
    ):
        (root / name).symlink_to(ROOT / place)
    report_path = root / "slither.json"
    options = ("--compile-force-framework", "foundry", "--foundry-ignore-compile", "--no-fail")
    done = run_and_capture(
        [get_program_path("slither"), str(root), *options, "--json", str(report_path)], folder=root
    )
    if not report_path.is_file():
        raise RuntimeError(f"slither: {done.stdout}{done.stderr}")
    answer = json.loads(report_path.read_text("utf-8"))
    if not answer["success"]:
        raise RuntimeError(f"slither: {answer['error']}")
    for detection in answer["results"].get("detectors", []):
        elements = detection["elements"]
        ours = [element for element in elements if not _is_from_npm(element)]
        # OpenZeppelin audits its own contracts.
        if ours or not elements:
            yield _finding(detection["check"], ours)


def _is_from_npm(element: Mapping[str, Any]) -> bool:
    return str(element["source_mapping"]["filename_relative"]).startswith("@openzeppelin/")


def _finding(detector: str, elements: list[Mapping[str, Any]]) -> Finding:
    """Return a finding at its first element; without elements, it concerns all files."""
    if not elements:
        return Finding(detector, "", "")
    contract, function = _place(elements[0])
    return Finding(detector, contract, function)


def _place(element: Mapping[str, Any]) -> tuple[str, str]:
    kind = element["type"]
    name = element["name"]
    if kind == "contract":
        return name, ""
    parent = element.get("type_specific_fields", {}).get("parent")
    if parent is None:
        # A pragma or a constant beside all contracts: its file.
        return Path(element["source_mapping"]["filename_relative"]).stem, ""
    outer, inner = _place(parent)
    return outer, inner or name


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
