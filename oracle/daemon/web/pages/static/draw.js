"use strict";
/* Repeats the draw of a task with SHA-256 and integers only. Needs hashes.js, and does not use the
   document; tests compare it with Python (tests/integration/daemon/test_draw_script.py). */

/* Repeats a draw from the response of `/v1/draws/{task}/again`; weights are text, sums BigInt. */
function repeatDraw(inputs) {
  const seed = sha256(concatBytes(decodeHex(inputs.seed_hash), decodeHex(inputs.seed_name)));
  const counter = decodeHex(inputs.counter.toString(16).padStart(64, "0"));
  const digest = formatHex(sha256(concatBytes(seed, counter)));
  const candidates = [...inputs.candidates].sort((a, b) => (a.node < b.node ? -1 : 1));
  /* If all weights are 0, every candidate has the same chance. */
  const hasNoWeight = candidates.every((candidate) => BigInt(candidate.weight) === 0n);
  let sum = 0n;
  const rows = candidates.map(({ node, weight }) => {
    sum += hasNoWeight ? 1n : BigInt(weight);
    return { node, weight, upTo: sum };
  });
  const x = BigInt(digest) % sum;
  const node = rows.find((row) => row.upTo > x).node;
  return { seed: formatHex(seed), digest, total: sum, x, node, rows };
}
