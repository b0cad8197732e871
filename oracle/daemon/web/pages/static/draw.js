"use strict";
/* Repeats the draw of a task with SHA-256 (FIPS 180-4) and integers only. Browsers provide SHA-256
   only on pages that are served over TLS, so this file implements it; tests compare it with
   Python's (tests/integration/daemon/test_draw_script.py). This file does not use the document. */

/* The constants of FIPS 180-4: 32 bits of the fractional parts of the roots of the first primes. */
function rootsOfPrimes(many, root) {
  const found = [];
  for (let n = 2; found.length < many; n += 1) {
    let isPrime = true;
    for (let d = 2; d * d <= n; d += 1) {
      isPrime &&= n % d !== 0;
    }
    if (isPrime) {
      const value = root(n);
      found.push(((value - Math.floor(value)) * 2 ** 32) >>> 0);
    }
  }
  return found;
}

const HASH_WORDS = rootsOfPrimes(8, Math.sqrt);
const ROUND_WORDS = rootsOfPrimes(64, Math.cbrt);

function turned(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}

function padded(bytes) {
  const whole = new Uint8Array((((bytes.length + 8) >> 6) + 1) * 64);
  whole.set(bytes);
  whole[bytes.length] = 0x80;
  const view = new DataView(whole.buffer);
  view.setUint32(whole.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(whole.length - 4, (bytes.length << 3) >>> 0);
  return view;
}

function schedule(view, start) {
  const words = new Uint32Array(64);
  for (let i = 0; i < 16; i += 1) {
    words[i] = view.getUint32(start + i * 4);
  }
  for (let i = 16; i < 64; i += 1) {
    const early = words[i - 15];
    const late = words[i - 2];
    const low = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
    const high = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
    words[i] = words[i - 16] + low + words[i - 7] + high;
  }
  return words;
}

function compress(state, words) {
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i += 1) {
    const sigmaE = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const choice = (e & f) ^ (~e & g);
    const first = (h + sigmaE + choice + ROUND_WORDS[i] + words[i]) | 0;
    const sigmaA = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const second = (sigmaA + majority) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  const after = [a, b, c, d, e, f, g, h];
  return state.map((word, i) => (word + after[i]) | 0);
}

function sha256(bytes) {
  const view = padded(bytes);
  let state = HASH_WORDS;
  for (let start = 0; start < view.byteLength; start += 64) {
    state = compress(state, schedule(view, start));
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => digest.setInt32(i * 4, word));
  return new Uint8Array(digest.buffer);
}

function bytesOf(hex) {
  const digits = hex.replace(/^0x/, "");
  return Uint8Array.from({ length: digits.length / 2 }, (_, i) =>
    Number.parseInt(digits.slice(i * 2, i * 2 + 2), 16),
  );
}

function hexOf(bytes) {
  return `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/* Repeats a draw from the response of `/v1/draws/{task}/again`; weights are text, sums BigInt. */
function drawnAgain(told) {
  const seed = sha256(joined(bytesOf(told.seed_hash), bytesOf(told.seed_name)));
  const counter = bytesOf(told.counter.toString(16).padStart(64, "0"));
  const digest = hexOf(sha256(joined(seed, counter)));
  const ordered = [...told.candidates].sort((a, b) => (a.node < b.node ? -1 : 1));
  const isWeightless = ordered.every((one) => BigInt(one.weight) === 0n);
  let sum = 0n;
  const rows = ordered.map((one) => {
    sum += isWeightless ? 1n : BigInt(one.weight);
    return { node: one.node, weight: one.weight, upTo: sum };
  });
  const x = BigInt(digest) % sum;
  const node = rows.find((row) => row.upTo > x).node;
  return { seed: hexOf(seed), digest, total: sum, x, node, rows };
}
