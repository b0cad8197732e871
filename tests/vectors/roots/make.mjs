// Writes rounds.json: rounds with their roots and proofs, computed by OpenZeppelin's library alone.
//   npm ci && node make.mjs      write the file (in this folder)
//   node make.mjs --check        exit 1 if the file differs
import { readFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { SimpleMerkleTree, StandardMerkleTree } from "@openzeppelin/merkle-tree";

const PATH = new URL("rounds.json", import.meta.url);
const LEAF = ["address", "address", "uint256", "bytes32"];
const SUMMARY = ["uint256", "address", "uint32", "uint48", "uint32", "uint32", "uint64"];
const WORD = ["uint256", "uint256"];
const ZERO = "0x" + "00".repeat(32);

// The fields of the packed word from the lowest bit, with their sizes in bits.
const FIELDS = [
  ["lane", 16n], ["flags", 8n], ["seat", 32n], ["score_count", 16n],
  ["score_sum", 32n], ["reliability", 64n], ["kickout_due_since", 40n], ["last_scored_at", 40n],
];

const leafHash = (types, values) => StandardMerkleTree.of([values], types).leafHash(values);

// A whole number below `limit` that depends on the case, the seat and the name alone.
function draw(limit, ...key) {
  const digest = createHash("sha256").update(key.join("/")).digest("hex");
  return BigInt("0x" + digest) % BigInt(limit);
}

function drawLeaf(count, seat) {
  const at = (name, limit) => draw(limit, count, seat, name);
  const isOpen = at("open", 4) > 0n;
  return {
    node: "0x" + at("node", 1n << 160n).toString(16).padStart(40, "0"),
    lane: (isOpen ? 2n + at("lane", 10001) : 1n).toString(),
    flags: (isOpen ? 1n : 1n + 2n * at("flags", 8)).toString(),
    seat: String(seat),
    score_count: at("score_count", 51).toString(),
    score_sum: at("score_sum", 501).toString(),
    reliability: at("reliability", 10n ** 18n + 1n).toString(),
    kickout_due_since: (isOpen ? 0n : at("due", 1n << 40n)).toString(),
    last_scored_at: at("scored", 1n << 40n).toString(),
    pool_hash: "0x" + at("pool", 1n << 256n).toString(16).padStart(64, "0"),
  };
}

function pack(leaf) {
  let packed = 0n;
  let shift = 0n;
  for (const [name, bits] of FIELDS) {
    packed |= BigInt(leaf[name]) << shift;
    shift += bits;
  }
  return packed.toString();
}

const pair = (first, second) => SimpleMerkleTree.of([first, second]).root;

// The library needs no power of two of leaves, but a contract's tree has one; empty places are zero.
function treeOf(hashes) {
  const width = 2 ** Math.ceil(Math.log2(hashes.length));
  const padded = [...hashes, ...Array(width - hashes.length).fill(ZERO)];
  return SimpleMerkleTree.of(padded, { sortLeaves: false });
}

function makeRound(count) {
  const leaves = Array.from({ length: count }, (_, seat) => drawLeaf(count, seat));
  const ascending = leaves.map((leaf) => leaf.node).sort();
  for (const leaf of leaves) leaf.next_node = ascending[(ascending.indexOf(leaf.node) + 1) % count];
  const nodes = treeOf(leaves.map((leaf) => leafHash(LEAF, [leaf.node, leaf.next_node, pack(leaf), leaf.pool_hash])));
  const words = [];
  leaves.forEach((leaf, seat) => {
    words[seat >> 4] = (words[seat >> 4] ?? 0n) | (BigInt(leaf.lane) << (16n * BigInt(seat % 16)));
  });
  const wordTree = treeOf(words.map((word, index) => leafHash(WORD, [String(index), word.toString()])));
  const summary = {
    chain_id: draw(1n << 53n, count, "chain").toString(),
    oracle: "0x" + draw(1n << 160n, count, "oracle").toString(16).padStart(40, "0"),
    round: draw(1n << 32n, count, "round").toString(),
    as_of: draw(1n << 48n, count, "as_of").toString(),
    node_count: String(count),
    open_count: String(leaves.filter((leaf) => BigInt(leaf.lane) >= 2n).length),
    total_weight: leaves.reduce((sum, leaf) => sum + BigInt(leaf.lane) - 1n, 0n).toString(),
  };
  const summaryHash = leafHash(SUMMARY, Object.values(summary));
  const seats = [...new Set([0, count >> 1, count - 1])];
  const indexes = [...new Set([0, words.length - 1])];
  return {
    leaves: leaves.map((leaf) => ({ ...leaf, packed: pack(leaf) })),
    words: words.map((word) => word.toString()),
    summary,
    nodes_root: nodes.root,
    words_root: wordTree.root,
    root: pair(summaryHash, pair(nodes.root, wordTree.root)),
    node_proofs: seats.map((seat) => ({ seat, proof: [...nodes.getProof(seat), wordTree.root, summaryHash] })),
    word_proofs: indexes.map((index) => ({ index, proof: [...wordTree.getProof(index), nodes.root, summaryHash] })),
  };
}

const text = JSON.stringify({ rounds: [1, 2, 3, 5, 16, 17, 33, 100].map(makeRound) }, null, 1) + "\n";
if (process.argv.includes("--check")) {
  if (readFileSync(PATH, "utf8") !== text) {
    console.error("rounds.json differs from what OpenZeppelin's library computes: run node make.mjs");
    process.exit(1);
  }
} else {
  writeFileSync(PATH, text);
}
