"""The native code under the compiler's sanitizers: no access outside of a buffer."""

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g")
# Each round is a block of up to 257 receipts, logs, 60 candidates, a draw and a hash.
ROUNDS, MORE_ROUNDS = 60, 6_000

COMPILER = str(sysconfig.get_config_var("CC") or "cc").split()[0]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        shutil.which(COMPILER) is None and "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ,
        reason="no C compiler: apt-get install gcc python3-dev",
    ),
]


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory) -> Path:
    """Return a folder with the library, compiled as by ./check, with the sanitizers."""
    spec = spec_from_file_location("compiling", ROOT / "native" / "compile.py")
    assert spec is not None
    assert spec.loader is not None
    compiling = module_from_spec(spec)
    spec.loader.exec_module(compiling)
    folder: Path = tmp_path_factory.mktemp("sanitized")
    warned = ("-Wall", "-Wextra", "-Wshadow", *SANITIZERS)
    compiling.compile_into(folder / compiling.NAME, ROOT / "native" / "src", *warned)
    return folder


def of_compiler(library: str) -> str:
    """Return the path of a library of the compiler."""
    completed = subprocess.run(
        [COMPILER, f"-print-file-name={library}"], capture_output=True, text=True, check=True
    )
    return completed.stdout.strip()


def run_sanitized(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tests.support.native.{module}", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
        "LD_PRELOAD": of_compiler("libasan.so"),
        # Python frees memory late, and its own allocator would hide invalid accesses.
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("seed", "rounds"), [(1, ROUNDS), pytest.param(1_000, MORE_ROUNDS, marks=pytest.mark.nightly)]
)
def test_fuzzed_native_code_passes_sanitizers(sanitized: Path, seed: int, rounds: int):
    done = run_sanitized(sanitized, "fuzzing", str(seed), str(rounds))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{rounds} rounds, {sanitized / 'oracle_native.abi3.so'}\n"


@pytest.mark.parametrize(
    "case",
    [
        "stakes_that_empty_their_list",
        "stakes_that_grow_their_list",
        "sources_that_empty_the_lists",
        "logs_of_another_class",
        "times_at_the_ends_of_64_bits",
        "rows_of_classes_of_their_own",
        "tree_that_another_thread_resizes",
        "indexes_that_lie_in_the_tree",
        "seats_that_lie_among_the_lanes",
    ],
)
def test_malicious_python_callbacks_pass_sanitizers(sanitized: Path, case: str):
    done = run_sanitized(sanitized, "hostile", case)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
