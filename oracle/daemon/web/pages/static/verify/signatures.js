"use strict";
/* Recovers the signers of reports, objections and answers: secp256k1 and EIP-712. Needs hashes.js, and does not use the
   document. All inputs are public, so the time that a computation takes reveals nothing. */

const FIELD_PRIME = 2n ** 256n - 2n ** 32n - 977n;
const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const GENERATOR = [
  0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n,
  0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n,
];
/* The sum of a point and its opposite, in Jacobian coordinates. */
const INFINITY_POINT = [0n, 1n, 0n];

const DOMAIN_TYPE =
  "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";
const REPORT_DOMAIN = ["QoSOracle", "3"];
const REPORT_TYPE =
  "Report(bytes32 config,uint32 round,bytes32 prev,uint48 asOf,bytes32 asOfHash,uint40 deadline,bytes32 root)";
const REPORT_FIELDS = ["config", "round", "prev", "as_of", "as_of_hash", "deadline", "root"];
const SIGNATURE_BYTES = 65;

function reduceModulo(value, modulus) {
  const remainder = value % modulus;
  return remainder < 0n ? remainder + modulus : remainder;
}

function powerModulo(base, exponent, modulus) {
  let result = 1n;
  let factor = reduceModulo(base, modulus);
  for (let bits = exponent; bits > 0n; bits >>= 1n) {
    if (bits % 2n === 1n) {
      result = (result * factor) % modulus;
    }
    factor = (factor * factor) % modulus;
  }
  return result;
}

/* The modulus is prime (Fermat). */
function invertModulo(value, modulus) {
  return powerModulo(value, modulus - 2n, modulus);
}

/* Jacobian coordinates: (x, y, z) is the point (x / z^2, y / z^3). */
function doublePoint([x, y, z]) {
  if (z === 0n || y === 0n) {
    return INFINITY_POINT;
  }
  const square = (y * y) % FIELD_PRIME;
  const s = (4n * x * square) % FIELD_PRIME;
  const m = (3n * x * x) % FIELD_PRIME;
  const newX = reduceModulo(m * m - 2n * s, FIELD_PRIME);
  const newY = reduceModulo(m * (s - newX) - 8n * square * square, FIELD_PRIME);
  return [newX, newY, (2n * y * z) % FIELD_PRIME];
}

function addPoints(first, second) {
  if (first[2] === 0n) {
    return second;
  }
  if (second[2] === 0n) {
    return first;
  }
  const [x1, y1, z1] = first;
  const [x2, y2, z2] = second;
  const square1 = (z1 * z1) % FIELD_PRIME;
  const square2 = (z2 * z2) % FIELD_PRIME;
  const u1 = (x1 * square2) % FIELD_PRIME;
  const h = reduceModulo(x2 * square1 - u1, FIELD_PRIME);
  const s1 = (y1 * z2 * square2) % FIELD_PRIME;
  const r = reduceModulo(y2 * z1 * square1 - s1, FIELD_PRIME);
  if (h === 0n) {
    return r === 0n ? doublePoint(first) : INFINITY_POINT;
  }
  const h2 = (h * h) % FIELD_PRIME;
  const h3 = (h2 * h) % FIELD_PRIME;
  const v = (u1 * h2) % FIELD_PRIME;
  const newX = reduceModulo(r * r - h3 - 2n * v, FIELD_PRIME);
  return [newX, reduceModulo(r * (v - newX) - s1 * h3, FIELD_PRIME), (z1 * z2 * h) % FIELD_PRIME];
}

function multiplyPoint([x, y], scalar) {
  let result = INFINITY_POINT;
  let addend = [x, y, 1n];
  for (let bits = scalar; bits > 0n; bits >>= 1n) {
    if (bits % 2n === 1n) {
      result = addPoints(result, addend);
    }
    addend = doublePoint(addend);
  }
  return result;
}

function encodePadded(value) {
  const digits = BigInt(value).toString(16);
  if (digits.length > 64 || digits.startsWith("-")) {
    throw new Error("a number is out of the range of a word");
  }
  return decodeHex(digits.padStart(64, "0"));
}

/* Returns the address that signed a digest, or null if the contract would reject the signature. */
function recoverSigner(digest, signature) {
  if (typeof signature !== "string" || !/^0x[0-9a-f]{130}$/.test(signature)) {
    return null;
  }
  const bytes = parseHex(signature, SIGNATURE_BYTES, "signature");
  const r = BigInt(formatHex(bytes.slice(0, 32)));
  const s = BigInt(formatHex(bytes.slice(32, 64)));
  const parity = BigInt(bytes[64]) - 27n;
  const isValid = r > 0n && r < CURVE_ORDER && s > 0n && s <= CURVE_ORDER / 2n;
  if (!isValid || (parity !== 0n && parity !== 1n)) {
    return null;
  }
  const ySquare = reduceModulo(r ** 3n + 7n, FIELD_PRIME);
  const root = powerModulo(ySquare, (FIELD_PRIME + 1n) / 4n, FIELD_PRIME);
  if ((root * root) % FIELD_PRIME !== ySquare) {
    return null;
  }
  const y = root % 2n === parity ? root : FIELD_PRIME - root;
  const inverse = invertModulo(r, CURVE_ORDER);
  const fromPoint = multiplyPoint([r, y], reduceModulo(s * inverse, CURVE_ORDER));
  const fromGenerator = multiplyPoint(GENERATOR, reduceModulo(-BigInt(digest) * inverse, CURVE_ORDER));
  const [x, yKey, z] = addPoints(fromPoint, fromGenerator);
  if (z === 0n) {
    return null;
  }
  const zInverse = invertModulo(z, FIELD_PRIME);
  const key = [
    reduceModulo(x * zInverse ** 2n, FIELD_PRIME),
    reduceModulo(yKey * zInverse ** 3n, FIELD_PRIME),
  ];
  return `0x${hashBytes(concatBytes(...key.map(encodePadded))).slice(-40)}`;
}

function hashText(text) {
  return hashBytes(new TextEncoder().encode(text));
}

function hashWords(...words) {
  return hashBytes(concatBytes(...words.map(encodePadded)));
}

/* Returns the EIP-712 digest of a message, whose values are numbers, words or hashes. */
function computeDigest([name, version], chainId, contract, type, values) {
  const domain = hashWords(
    hashText(DOMAIN_TYPE),
    hashText(name),
    hashText(version),
    chainId,
    contract,
  );
  const message = hashWords(hashText(type), ...values);
  return hashBytes(concatBytes(Uint8Array.of(0x19, 1), decodeHex(domain), decodeHex(message)));
}

/* Returns the digest that the reporters sign (docs/reference/report-format.md#what-is-signed). */
function computeReportDigest(report) {
  const values = REPORT_FIELDS.map((name) => report[name]);
  return computeDigest(REPORT_DOMAIN, report.chain_id, report.contract, REPORT_TYPE, values);
}

/* Returns the digest of a configuration: `abi.encode` of its values, with the list at the end. */
function computeConfigDigest(report) {
  const listOffset = 6 * 32;
  return hashWords(
    report.chain_id,
    report.contract,
    report.config_count,
    listOffset,
    report.quorum,
    report.rules_hash,
    report.signers.length,
    ...report.signers,
  );
}
