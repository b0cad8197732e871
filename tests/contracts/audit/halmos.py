"""Proves checks/*.sol for all inputs: `make halmos` (docs/reference/audit.md#what-is-proven).

Each check must hold, and each `check_refuted_` must be refuted. Exit code 1: one is not. A run in
which all are as they should be records the hash of the proven files in proven.sha256. With
--if-changed, as in CI, nothing is proven if the files still have this hash.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.contracts.audit.tools import (
    HERE,
    ROOT,
    compile_like_forge,
    get_program_path,
    install_programs,
    run_and_capture,
)

# Options per check contract: loop iterations and lengths of bytes.
CHECKS: Mapping[str, tuple[str, ...]] = {
    "LanesCheck": ("--loop", "16"),
    "PackedLanesCheck": (),
    # Two signatures of 65 bytes; a proof of two hashes.
    "RootsQuorumCheck": ("--loop", "4", "--default-bytes-lengths", "130"),
    "RootsKickCheck": ("--loop", "4", "--default-array-lengths", "2"),
    # The product of LAG and an interval takes the solver more than a minute on a busy
    # machine.
    "RootsLimitsCheck": ("--solver-timeout-assertion", "10m"),
    "RootsPauseCheck": ("--loop", "5"),
    "RootsRolesCheck": (),
}
# Halmos's exit codes of a check.
HOLDS, REFUTED = 0, 1
_SAID = {HOLDS: "holds", REFUTED: "refuted", 2: "timeout", 3: "stuck", 4: "always reverts"}


_RECORD = HERE / "proven.sha256"
# Everything that the result of the proofs depends on, relative to the repository. The checks
# import the oracle's contracts, but not the reference network.
PROVEN_FILES = (
    "contracts/I*.sol",
    "contracts/roots/**/*.sol",
    "contracts/build.mjs",
    "package-lock.json",
    "constraints/audit.txt",
    "tests/contracts/audit/checks/*.sol",
    "tests/contracts/audit/*.mjs",
    "tests/contracts/audit/halmos.py",
    "tests/contracts/audit/tools.py",
)


def main(arguments: list[str]) -> int:
    """Compile and prove each contract of checks, as many in parallel as there are processors."""
    parser = argparse.ArgumentParser(prog="make halmos", description=__doc__)
    parser.add_argument(
        "--if-changed", action="store_true", help="prove only files that were not proven before"
    )
    digest = compute_files_digest(ROOT)
    if parser.parse_args(arguments).if_changed and digest == _RECORD.read_text("ascii").strip():
        _print_line(f"not repeated: {_RECORD.name} names the contracts and checks as proven")
        return 0
    install_programs()
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        for contract, results in zip(CHECKS, executor.map(prove_contract, CHECKS), strict=True):
            wrong = [check for check, code in results.items() if code != expected_exit_code(check)]
            for check in wrong:
                _print_line(f"{contract}.{check}: {_SAID.get(results[check], results[check])}")
            right = len(results) - len(wrong)
            _print_line(f"{contract}: {right} of {len(results)} checks are as they should be")
            failed += len(wrong) + (not results)
    if failed:
        return 1
    _RECORD.write_text(f"{digest}\n", "ascii")
    return 0


def compute_files_digest(root: Path) -> str:
    """Return a hash of the names and contents of all files that the proofs depend on."""
    paths = sorted({path for pattern in PROVEN_FILES for path in root.glob(pattern)})
    lines = [
        f"{path.relative_to(root).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in paths
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def expected_exit_code(check: str) -> int:
    """Return the exit code that a check must have: that of a refutation for `check_refuted_`,
    else of a proof.
    """
    return REFUTED if check.startswith("check_refuted_") else HOLDS


def prove_contract(contract: str) -> Mapping[str, int]:
    """Return the result of each check of a contract.

    Raises:
        RuntimeError: the checks do not compile, or Halmos did not get to them.
    """
    source = HERE / "checks" / f"{contract}.sol"
    root = compile_like_forge(f"halmos-{contract}", [str(source.relative_to(ROOT))], "--code")
    results_path = root / "results.json"
    # z3 is included in Halmos; other solvers would be downloaded at their first use.
    options = ("--root", str(root), "--contract", contract, "--solver", "z3", "--no-status")
    done = run_and_capture(
        [
            get_program_path("halmos"),
            *options,
            *CHECKS[contract],
            "--json-output",
            str(results_path),
        ]
    )
    if not results_path.is_file():
        raise RuntimeError(f"halmos: {done.stdout}{done.stderr}")
    results: Mapping[str, Any] = json.loads(results_path.read_text("utf-8"))["test_results"]
    return {
        check["name"].partition("(")[0]: check["exitcode"]
        for checks in results.values()
        for check in checks
    }


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
