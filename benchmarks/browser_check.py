"""Measure the page `/verify` on a network's events: JSON, fold and root of a round, in Node.js.

Run: .venv/bin/python benchmarks/browser_check.py [--events 10000]
Node.js and Chromium have the same engine. The comparison is this project's own fold, which runs
without the root, so the two figures only show the order of magnitude.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from oracle.daemon.web.pages.page_frame import STATIC  # noqa: E402
from oracle.queries.replay import replay_events  # noqa: E402
from oracle.systems.registry import get_rules  # noqa: E402
from tests.conformance.random_cases import draw_orderly_history  # noqa: E402
from tests.conformance.run import SCRIPTS  # noqa: E402

RUNS = 5
TARGET_SECONDS = 0.5
TARGET_EVENTS = 10_000
RUNNER = """
const { readFileSync } = require("node:fs");
const vm = require("node:vm");
const readClock = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const page = { input: readFileSync(0, "utf8"), readClock };
page.window = page;
vm.createContext(page);
for (const path of process.argv.slice(1)) {
  vm.runInContext(readFileSync(path, "utf8"), page);
}
console.log(vm.runInContext(`
  const { rules, text, runs } = JSON.parse(input);
  const times = [];
  for (let run = 0; run < runs; run += 1) {
    const start = readClock();
    const events = text.split("\\\\n").map((line) => JSON.parse(line));
    const fold = new Fold(parseRules(rules)).apply(events);
    const leaves = buildLeaves(fold, fold.last.time, { holds_kickouts: false, undecoded: [] });
    computeRound(leaves, { chain_id: 1, oracle: "0x" + "0".repeat(40), round: 1, as_of: 1 });
    times.push(readClock() - start);
  }
  JSON.stringify(times);
`, page));
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=TARGET_EVENTS)
    event_count = parser.parse_args().events
    begin_benchmark("network requests, signatures and the display of the page")
    lines = build_lines(event_count)
    seconds_by_run = measure_script(lines)
    start = time.process_time()
    replay_events(lines, get_rules("crynux"), None, None)
    baseline_seconds = time.process_time() - start
    return finish_benchmark(
        [
            Outcome(
                title=f"{len(lines):,} events to a root, first run",
                value=seconds_by_run[0],
                unit="s",
                target=TARGET_SECONDS,
                baseline=baseline_seconds,
                baseline_name="replay",
                target_size="" if event_count == TARGET_EVENTS else f"{TARGET_EVENTS:,} events",
            ),
            Outcome(
                title=f"{len(lines):,} events to a root, best run",
                value=min(seconds_by_run),
                unit="s",
                target=None,
                baseline=baseline_seconds,
                baseline_name="replay",
            ),
        ]
    )


def build_lines(event_count: int) -> list[str]:
    """Return about `event_count` events of completed groups, as JSON lines."""
    random_source = random.Random("browser check")  # noqa: S311 - the same events each time
    return [json.dumps(event) for event in draw_orderly_history(random_source, event_count // 15)]


def measure_script(lines: list[str]) -> list[float]:
    """Return the CPU seconds of each run in one Node.js process."""
    node = shutil.which("node")
    if node is None:
        raise SystemExit("node is not on the PATH")
    rules = json.loads(get_rules("crynux").to_json())
    completed_process = subprocess.run(
        [node, "-e", RUNNER, *(str(STATIC / name) for name in SCRIPTS)],
        input=json.dumps({"rules": rules, "text": "\n".join(lines), "runs": RUNS}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds_by_run: list[float] = json.loads(completed_process.stdout)
    return seconds_by_run


if __name__ == "__main__":
    raise SystemExit(main())
