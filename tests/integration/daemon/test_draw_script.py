"""The draw in a browser equals the daemon's: hash and arithmetic are compared with Python."""

import hashlib
import json
import shutil
import subprocess

import pytest
from hypothesis import given, strategies as st

from oracle.daemon.web.pages.page_frame import STATIC
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.systems.weighted_draw import compute_draw_seed, draw_nodes
from tests.support.examples import examples

NODE = shutil.which("node") or ""
pytestmark = pytest.mark.skipif(not NODE, reason="node runs the script")
# The context is like that of a page: no modules, nothing of Node.js.
RUNNER = """
for (const path of process.argv.slice(1)) {
  require("node:vm").runInThisContext(require("node:fs").readFileSync(path, "utf8"));
}
const input = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const text = (_, value) => (typeof value === "bigint" ? String(value) : value);
const output = {
  digests: input.texts.map((hex) => formatHex(sha256(decodeHex(hex)))),
  draws: input.draws.map(repeatDraw),
};
console.log(JSON.stringify(output, text));
"""
hashes = st.binary(min_size=32, max_size=32).map(lambda raw: "0x" + raw.hex())
addresses = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
weights = st.sampled_from([0, 1, 10**18]) | st.integers(0, 10**24)
candidates = st.dictionaries(addresses, weights, min_size=1, max_size=12)


def run_draw_script(texts=(), draws=()):
    completed = subprocess.run(
        [NODE, "-e", RUNNER, *(str(STATIC / name) for name in ("hashes.js", "draw.js"))],
        input=json.dumps({"texts": texts, "draws": draws}),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(completed.stdout)


def test_draw_script_sha256_equals_hashlib():
    texts = [bytes(range(length)) for length in range(200)]
    digests = run_draw_script(texts=[text.hex() for text in texts])["digests"]
    assert digests == ["0x" + hashlib.sha256(text).hexdigest() for text in texts]


@pytest.mark.slow
@examples(20)
@given(st.lists(st.tuples(candidates, hashes, hashes), min_size=30, max_size=40))
def test_draw_script_selects_same_nodes_as_oracle(cases):
    draw_requests, expected = [], []
    for weighted, block, task in cases:
        seed = compute_draw_seed(Hash(block), TaskKey(task))
        pairs = [(Address(name), weight) for name, weight in weighted.items()]
        gone: set[Address] = set()
        # If tasks are drawn together, each drawn node is no candidate for the later tasks.
        for counter, drawn in enumerate(draw_nodes(pairs, seed, 3)):
            left = [{"node": name, "weight": str(n)} for name, n in pairs if name not in gone]
            draw_requests.append(
                {"seed_hash": block, "seed_name": task, "counter": counter, "candidates": left}
            )
            expected.append((drawn.node, drawn.digest, str(drawn.x), str(drawn.total)))
            gone.add(drawn.node)
    script_draws = run_draw_script(draws=draw_requests)["draws"]
    assert [
        (draw["node"], draw["digest"], draw["x"], draw["total"]) for draw in script_draws
    ] == expected
