"""solhint over the contracts that are deployed; `make slither` runs it beside Slither."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.contracts.audit.findings import Finding
from tests.contracts.audit.tools import (
    HERE,
    ROOT,
    get_node_program_path,
    list_deployed_sources,
    run_and_capture,
)

_SCRIPT = HERE / "node_modules" / "solhint" / "solhint.js"
_OPENING = re.compile(
    r"^\s*(?:abstract\s+)?(?P<kind>contract|library|interface|function|modifier|constructor)"
    r"\b\s*(?P<name>\w*)"
)


def list_findings() -> Iterator[Finding]:
    """Yield solhint's findings by contract and function.

    Raises:
        RuntimeError: it did not get to the contracts.
    """
    command = (
        get_node_program_path("node"),
        str(_SCRIPT),
        "--noPoster",
        "--disc",
        "--formatter",
        "json",
    )
    done = run_and_capture(
        [*command, "--config", str(HERE / "solhint.json"), *list_deployed_sources()]
    )
    begin = done.stdout.find("[")
    if begin < 0:
        raise RuntimeError(f"solhint: {done.stdout}{done.stderr}")
    for issue in json.loads(done.stdout[begin:]):
        if "ruleId" in issue:
            contract, function = place(ROOT / issue["filePath"], issue["line"])
            yield Finding(issue["ruleId"], contract, function)


def place(path: Path, line: int) -> tuple[str, str]:
    """Return the contract and the function that contain a line of a source (counted from 1)."""
    contract = function = ""
    for text in path.read_text("utf-8").splitlines()[:line]:
        if opening := _OPENING.match(text):
            if opening["kind"] in ("contract", "library", "interface"):
                contract = opening["name"]
                function = ""
            else:
                function = opening["name"] or opening["kind"]
    return contract or path.stem, function
