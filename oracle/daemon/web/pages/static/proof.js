"use strict";
/* Checks the Merkle proof of a node's score. Needs hashes.js, and does not use the document; tests
   run it on the rounds that OpenZeppelin's library computed
   (tests/integration/daemon/test_proof_script.py). docs/reference/report-format.md#roots describes
   leaves, summary and root. */

/* The numbers in the third word of a leaf, from the lowest bit. */
const LEAF_FIELD_BITS = {
  lane: 16,
  flags: 8,
  seat: 32,
  score_count: 16,
  score_sum: 32,
  reliability: 64,
  kickout_due_since: 40,
  last_scored_at: 40,
};
const LEAF_FLAGS = ["is_member", "is_paused", "is_excluded", "is_held"];
const SUMMARY_FIELDS = [
  "chain_id",
  "oracle",
  "round",
  "as_of",
  "node_count",
  "open_count",
  "total_weight",
];
const LOWEST_SCORE_LANE = 2;
const LANE_DECIMALS = 4;
const FRACTION_DECIMALS = 18;
const WORD_DIGITS = 64;
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
/* 31 December 9999: the last day that the server formats. */
const LAST_TIME = 253402300799;

/* A leaf is hashed twice, so that no inner node passes for a leaf. */
function hashLeaf(encoded) {
  return hashBytes(parseHex(hashBytes(encoded), 32, "leaf"));
}

function hashPair(first, second) {
  const [low, high] = first <= second ? [first, second] : [second, first];
  return hashBytes(parseHex(low + high.slice(2), 64, "proof"));
}

function computeRoot(leafHash, proof) {
  return proof.reduce((hash, sibling) => {
    parseHex(sibling, 32, "proof");
    return hashPair(hash, sibling);
  }, leafHash);
}

function formatFraction(units, decimals) {
  const digits = units.toString().padStart(FRACTION_DECIMALS + 1, "0");
  const split = digits.length - FRACTION_DECIMALS;
  return `${digits.slice(0, split)}.${digits.slice(split, split + decimals)}`;
}

/* Returns the values in the 128 bytes of a leaf, as the API states them. */
function decodeLeaf(encoded) {
  parseHex(encoded, 128, "leaf");
  const words = encoded.slice(2).match(/.{64}/g);
  const values = {};
  let rest = BigInt(`0x${words[2]}`);
  for (const [name, bits] of Object.entries(LEAF_FIELD_BITS)) {
    values[name] = BigInt.asUintN(bits, rest);
    rest >>= BigInt(bits);
  }
  const flags = Number(values.flags);
  const padding = words[0].slice(0, 24) + words[1].slice(0, 24);
  if (/[1-9a-f]/.test(padding) || rest !== 0n || flags >> LEAF_FLAGS.length !== 0) {
    throw new Error("leaf: bits are set that have no meaning");
  }
  const lane = Number(values.lane);
  const steps = BigInt(Math.max(0, lane - LOWEST_SCORE_LANE));
  return {
    node: `0x${words[0].slice(24)}`,
    next_node: `0x${words[1].slice(24)}`,
    lane,
    qos:
      lane < LOWEST_SCORE_LANE
        ? null
        : formatFraction(steps * 10n ** BigInt(FRACTION_DECIMALS - LANE_DECIMALS), FRACTION_DECIMALS),
    ...Object.fromEntries(LEAF_FLAGS.map((name, bit) => [name, ((flags >> bit) & 1) === 1])),
    seat: Number(values.seat),
    score_count: Number(values.score_count),
    score_sum: Number(values.score_sum),
    reliability: formatFraction(values.reliability, FRACTION_DECIMALS),
    kickout_due_since: Number(values.kickout_due_since) || null,
    last_scored_at: Number(values.last_scored_at) || null,
    pool_hash: `0x${words[3]}`,
  };
}

/* Returns the summary's 224 bytes; its numbers are numbers, or text if they may be large. */
function encodeSummary(summary) {
  const words = SUMMARY_FIELDS.map((name) => {
    const digits = BigInt(summary[name]).toString(16);
    if (digits.length > WORD_DIGITS || digits.startsWith("-")) {
      throw new Error(`summary: ${name} is out of range`);
    }
    return digits.padStart(WORD_DIGITS, "0");
  });
  return parseHex(`0x${words.join("")}`, 32 * SUMMARY_FIELDS.length, "summary");
}

function isBetween(address, node, nextNode) {
  /* The lowest address follows the highest. */
  return node < nextNode
    ? node < address && address < nextNode
    : address > node || address < nextNode;
}

/* Returns a CAIP-10 id, whose address has the checksum of EIP-55. */
function formatAccountId(chainId, address) {
  const digits = address.slice(2);
  const hash = keccak256(digits);
  const mixed = [...digits].map((digit, index) =>
    Number.parseInt(hash[index], 16) >= 8 ? digit.toUpperCase() : digit,
  );
  return `eip155:${chainId}:0x${mixed.join("")}`;
}

function checkValues(proof) {
  const leaf = decodeLeaf(proof.leaf.encoded);
  const { summary } = proof;
  const wrong = Object.keys(leaf).filter((name) => leaf[name] !== proof.leaf[name]);
  if (proof.account_id !== formatAccountId(summary.chain_id, proof.address)) {
    wrong.push("account_id");
  }
  if (summary.oracle_account_id !== formatAccountId(summary.chain_id, summary.oracle)) {
    wrong.push("oracle_account_id");
  }
  return [
    leaf,
    {
      name: "Values",
      is_true: wrong.length === 0,
      text:
        wrong.length === 0
          ? "The values of the response are those in the 128 bytes of the leaf."
          : `The response states other values than its leaf and summary: ${wrong.join(", ")}.`,
    },
  ];
}

function checkAddress(proof, leaf, address) {
  const isAbsent = isBetween(address, leaf.node, leaf.next_node);
  const isMatch =
    proof.address === address &&
    (proof.is_absent === true ? isAbsent : proof.is_absent === false && leaf.node === address);
  let text = `The leaf of ${leaf.node} does not prove what the response states about ${address}.`;
  if (isMatch) {
    text = isAbsent
      ? `${address} lies between ${leaf.node} and the next address that has a leaf, ${leaf.next_node}.`
      : `The leaf is that of ${address}.`;
  }
  return { name: "Address", is_true: isMatch, text };
}

function checkSummary(proof, expected) {
  const { summary } = proof;
  const wrong = SUMMARY_FIELDS.filter(
    (name) => name in expected && String(summary[name]) !== String(expected[name]),
  );
  const isHashed = hashLeaf(encodeSummary(summary)) === proof.proof.at(-1);
  let text = `It names round ${summary.round}, block ${summary.as_of}, chain ${summary.chain_id} and contract ${summary.oracle}, as this page does.`;
  if (wrong.length > 0) {
    text = `It is not the summary of the round on this page: ${wrong.join(", ")}.`;
  } else if (!isHashed) {
    text = "Its hash is not the last hash of the proof.";
  }
  return { name: "Summary", is_true: wrong.length === 0 && isHashed, text };
}

function checkPath(proof, root) {
  const isMatch = root === proof.root;
  const path = `The leaf and ${proof.proof.length} hashes lead to ${root}`;
  return {
    name: "Path",
    is_true: isMatch,
    text: isMatch
      ? `${path}, the root of the response.`
      : `${path}, but the root of the response is ${proof.root}.`,
  };
}

function checkRoot(name, source, root, expectedRoot) {
  const isMatch = root === expectedRoot;
  return {
    name,
    is_true: isMatch,
    text: isMatch
      ? `It is the root ${source}.`
      : `The root ${source} is another one: ${expectedRoot}.`,
  };
}

/* Checks a proof, as the API returns it, against what the reader knows.

   `expected` has the address, and the fields of the summary that are on the page. Its `root` is the
   root that the server stores for the round, or null; `other_root` is a root that the reader got
   from elsewhere, or null. The proof is true only if every check is. */
function checkProof(proof, expected) {
  try {
    const [leaf, valuesCheck] = checkValues(proof);
    const root = computeRoot(hashLeaf(parseHex(proof.leaf.encoded, 128, "leaf")), proof.proof);
    const checks = [
      valuesCheck,
      checkAddress(proof, leaf, expected.address),
      checkSummary(proof, expected),
      checkPath(proof, root),
    ];
    if (expected.root !== null) {
      checks.push(checkRoot("Root", "that this server stores for the round", root, expected.root));
    }
    if (expected.other_root !== null) {
      checks.push(checkRoot("Your root", "that you entered", root, expected.other_root));
    }
    return { is_true: checks.every((check) => check.is_true), root, leaf, checks };
  } catch (error) {
    /* Bytes that cannot be read prove nothing. */
    const text = `The response is malformed: ${error.message}.`;
    return {
      is_true: false,
      root: null,
      leaf: null,
      checks: [{ name: "Response", is_true: false, text }],
    };
  }
}

function formatProofTime(seconds) {
  if (seconds > LAST_TIME) {
    return `${seconds} s`;
  }
  const time = new Date(seconds * 1000);
  const pad = (number) => String(number).padStart(2, "0");
  const date = `${pad(time.getUTCDate())} ${MONTHS[time.getUTCMonth()]} ${String(time.getUTCFullYear()).padStart(4, "0")}`;
  return `${date}, ${time.toISOString().slice(-13, -5)} UTC`;
}

/* Returns the values of a leaf in words, as the server words them (queries/proof_sentences.py). */
function describeLeaf(leaf) {
  const due =
    leaf.kickout_due_since === null ? "no" : `since ${formatProofTime(leaf.kickout_due_since)}`;
  const states = [leaf.is_member ? "member" : "not a member"];
  for (const [isSet, word] of [
    [leaf.is_paused, "paused"],
    [leaf.is_excluded, "excluded"],
  ]) {
    if (isSet) {
      states.push(word);
    }
  }
  return [
    ["score", leaf.qos === null ? "do not select" : `QoS ${leaf.qos.slice(0, -14)}`],
    ["H", leaf.reliability.slice(0, -14)],
    [
      "scores that count",
      leaf.score_count === 0 ? "none" : `${leaf.score_count}, with a sum of ${leaf.score_sum}`,
    ],
    ["last score", leaf.last_scored_at === null ? "none" : formatProofTime(leaf.last_scored_at)],
    ["kickout due", leaf.is_held ? `${due}, held until an operator decides` : due],
    ["state", states.join(", ")],
    ["seat", String(leaf.seat)],
  ];
}

function describeSummary(summary) {
  const format = (number) => BigInt(number).toLocaleString("en-US");
  return [
    ["nodes", format(summary.node_count)],
    ["may be selected", format(summary.open_count)],
    ["total weight", format(summary.total_weight)],
  ];
}
