"use strict";
/* Repeats the draw of a task with SHA-256 and integers only. Needs hashes.js, and does not use the
   document; tests compare it with Python (tests/integration/daemon/test_draw_script.py). */

/* Repeats a draw from the response of `/v1/draws/{task}/again`; weights are text, sums BigInt. */
function drawnAgain(told) {
  const seed = sha256(concatBytes(decodeHex(told.seed_hash), decodeHex(told.seed_name)));
  const counter = decodeHex(told.counter.toString(16).padStart(64, "0"));
  const digest = formatHex(sha256(concatBytes(seed, counter)));
  const ordered = [...told.candidates].sort((a, b) => (a.node < b.node ? -1 : 1));
  const isWeightless = ordered.every((one) => BigInt(one.weight) === 0n);
  let sum = 0n;
  const rows = ordered.map((one) => {
    sum += isWeightless ? 1n : BigInt(one.weight);
    return { node: one.node, weight: one.weight, upTo: sum };
  });
  const x = BigInt(digest) % sum;
  const node = rows.find((row) => row.upTo > x).node;
  return { seed: formatHex(seed), digest, total: sum, x, node, rows };
}
