"use strict";
/* Bytes, hex, SHA-256 (FIPS 180-4) and Keccak-256, for all pages that check something. Browsers provide
   SHA-256 only on pages that are served over TLS, so this file implements it. Keccak-256 is
   `keccak256` of vendor/keccak.min.js. Tests compare both with Python's
   (tests/integration/daemon/test_draw_script.py, test_proof_script.py). */

/* The constants of FIPS 180-4: 32 bits of the fractional parts of the roots of the first primes. */
function computePrimeRoots(count, root) {
  const words = [];
  for (let n = 2; words.length < count; n += 1) {
    let isPrime = true;
    for (let d = 2; d * d <= n; d += 1) {
      isPrime &&= n % d !== 0;
    }
    if (isPrime) {
      const value = root(n);
      words.push(((value - Math.floor(value)) * 2 ** 32) >>> 0);
    }
  }
  return words;
}

const HASH_WORDS = computePrimeRoots(8, Math.sqrt);
const ROUND_WORDS = computePrimeRoots(64, Math.cbrt);

function rotateRight(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}

function padMessage(bytes) {
  const padded = new Uint8Array((((bytes.length + 8) >> 6) + 1) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, (bytes.length << 3) >>> 0);
  return view;
}

function scheduleWords(view, start) {
  const words = new Uint32Array(64);
  for (let i = 0; i < 16; i += 1) {
    words[i] = view.getUint32(start + i * 4);
  }
  for (let i = 16; i < 64; i += 1) {
    const early = words[i - 15];
    const late = words[i - 2];
    const low = rotateRight(early, 7) ^ rotateRight(early, 18) ^ (early >>> 3);
    const high = rotateRight(late, 17) ^ rotateRight(late, 19) ^ (late >>> 10);
    words[i] = words[i - 16] + low + words[i - 7] + high;
  }
  return words;
}

function compressBlock(state, words) {
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i += 1) {
    const sigmaE = rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25);
    const choice = (e & f) ^ (~e & g);
    const first = (h + sigmaE + choice + ROUND_WORDS[i] + words[i]) | 0;
    const sigmaA = rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const second = (sigmaA + majority) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  const after = [a, b, c, d, e, f, g, h];
  return state.map((word, i) => (word + after[i]) | 0);
}

function sha256(bytes) {
  const view = padMessage(bytes);
  let state = HASH_WORDS;
  for (let start = 0; start < view.byteLength; start += 64) {
    state = compressBlock(state, scheduleWords(view, start));
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => digest.setInt32(i * 4, word));
  return new Uint8Array(digest.buffer);
}

/* Returns the bytes of hex digits, with or without `0x`. */
function decodeHex(hex) {
  const digits = hex.replace(/^0x/, "");
  return Uint8Array.from({ length: digits.length / 2 }, (_, i) =>
    Number.parseInt(digits.slice(i * 2, i * 2 + 2), 16),
  );
}

/* Returns the bytes of `0x` and hex digits in lower case; throws unless there are `byteCount`. */
function parseHex(text, byteCount, name) {
  if (typeof text !== "string" || !/^0x[0-9a-f]*$/.test(text) || text.length !== 2 + 2 * byteCount) {
    throw new Error(`${name}: expected 0x and ${2 * byteCount} hex digits in lower case`);
  }
  return decodeHex(text);
}

function formatHex(bytes) {
  return `0x${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function concatBytes(...parts) {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}

/* Returns the Keccak-256 hash of bytes as `0x` hex. */
function hashBytes(bytes) {
  return `0x${keccak256(bytes)}`;
}
