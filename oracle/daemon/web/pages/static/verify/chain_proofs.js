"use strict";
/* Proves by Ethereum's own hashes that logs are in a block: RLP, header, receipts trie. Needs
   hashes.js, and does not use the document. */

const HEADER_FIELDS = [
  ["parentHash", "bytes"],
  ["sha3Uncles", "bytes"],
  ["miner", "bytes"],
  ["stateRoot", "bytes"],
  ["transactionsRoot", "bytes"],
  ["receiptsRoot", "bytes"],
  ["logsBloom", "bytes"],
  ["difficulty", "number"],
  ["number", "number"],
  ["gasLimit", "number"],
  ["gasUsed", "number"],
  ["timestamp", "number"],
  ["extraData", "bytes"],
  ["mixHash", "bytes"],
  ["nonce", "bytes"],
];
/* Fields that later forks have added at the end; a block without them is older. */
const ADDED_HEADER_FIELDS = [
  ["baseFeePerGas", "number"],
  ["withdrawalsRoot", "bytes"],
  ["blobGasUsed", "number"],
  ["excessBlobGas", "number"],
  ["parentBeaconBlockRoot", "bytes"],
  ["requestsHash", "bytes"],
];
const MAX_RECEIPT_TYPE = 4;
const EMPTY_STRING = Uint8Array.of(0x80);

function encodeNumberBytes(value) {
  const digits = BigInt(value).toString(16);
  return digits === "0" ? new Uint8Array() : decodeHex(digits.length % 2 ? `0${digits}` : digits);
}

function encodeHead(length, shortOffset) {
  if (length < 56) {
    return Uint8Array.of(shortOffset + length);
  }
  const size = encodeNumberBytes(length);
  return concatBytes(Uint8Array.of(shortOffset + 55 + size.length), size);
}

function encodeRlpBytes(bytes) {
  return bytes.length === 1 && bytes[0] < 0x80
    ? bytes
    : concatBytes(encodeHead(bytes.length, 0x80), bytes);
}

/* Returns the RLP of a list whose items are encoded. */
function encodeRlpList(items) {
  const body = concatBytes(...items);
  return concatBytes(encodeHead(body.length, 0xc0), body);
}

function encodeRlpField(value, kind) {
  if (typeof value !== "string" || !/^0x([0-9a-fA-F]{2})*$|^0x[0-9a-fA-F]+$/.test(value)) {
    throw new Error("the endpoint returned a field that is not hex");
  }
  return encodeRlpBytes(kind === "number" ? encodeNumberBytes(value) : decodeHex(value));
}

/* Returns the hash of a block with this header. */
function computeBlockHash(header) {
  const added = ADDED_HEADER_FIELDS.filter(([name]) => header[name] != null);
  const fields = [...HEADER_FIELDS, ...added];
  return hashBytes(encodeRlpList(fields.map(([name, kind]) => encodeRlpField(header[name], kind))));
}

function encodeLog(log) {
  const topics = log.topics.map((topic) => encodeRlpField(topic, "bytes"));
  return encodeRlpList([
    encodeRlpField(log.address, "bytes"),
    encodeRlpList(topics),
    encodeRlpField(log.data, "bytes"),
  ]);
}

/* Returns the encoding of a receipt that the receipts trie contains. */
function encodeReceipt(receipt) {
  const type = Number(receipt.type ?? "0x0");
  if (type > MAX_RECEIPT_TYPE) {
    throw new Error(`the block has a receipt of the unknown type ${type}`);
  }
  const body = encodeRlpList([
    receipt.root ? encodeRlpField(receipt.root, "bytes") : encodeRlpField(receipt.status, "number"),
    encodeRlpField(receipt.cumulativeGasUsed, "number"),
    encodeRlpField(receipt.logsBloom, "bytes"),
    encodeRlpList(receipt.logs.map(encodeLog)),
  ]);
  return type === 0 ? body : concatBytes(Uint8Array.of(type), body);
}

function encodePath(nibbles, isLeaf) {
  const flag = isLeaf ? 2 : 0;
  const digits =
    nibbles.length % 2 === 1 ? `${(flag + 1).toString(16)}${nibbles}` : `${flag}0${nibbles}`;
  return encodeRlpBytes(decodeHex(digits));
}

function findCommonLength(first, second, start) {
  let length = start;
  while (length < first.length && first[length] === second[length]) {
    length += 1;
  }
  return length;
}

function encodeReference(node) {
  return node.length < 32 ? node : encodeRlpBytes(decodeHex(hashBytes(node)));
}

/* Returns the node of the trie over entries (key as nibbles, value), sorted by key, below `depth`. */
function encodeTrieNode(entries, depth) {
  const [firstKey, value] = entries[0];
  if (entries.length === 1) {
    return encodeRlpList([encodePath(firstKey.slice(depth), true), encodeRlpBytes(value)]);
  }
  const lastKey = entries[entries.length - 1][0];
  const shared = findCommonLength(firstKey, lastKey, depth);
  const children = [..."0123456789abcdef"].map((nibble) => {
    const below = entries.filter(([key]) => key[shared] === nibble);
    return below.length === 0 ? EMPTY_STRING : encodeReference(encodeTrieNode(below, shared + 1));
  });
  const branch = encodeRlpList([...children, EMPTY_STRING]);
  return shared > depth
    ? encodeRlpList([encodePath(firstKey.slice(depth, shared), false), encodeReference(branch)])
    : branch;
}

/* Returns the root of the trie of values, whose keys are the RLP of their indexes. */
function computeTrieRoot(values) {
  if (values.length === 0) {
    return hashBytes(EMPTY_STRING);
  }
  const entries = values.map((value, index) => [
    formatHex(encodeRlpBytes(encodeNumberBytes(index))).slice(2),
    value,
  ]);
  entries.sort((first, second) => (first[0] < second[0] ? -1 : 1));
  return hashBytes(encodeTrieNode(entries, 0));
}

/* Returns the reason why a block's receipts do not prove its logs, or null. */
function findReceiptsMismatch(header, receipts) {
  const hash = computeBlockHash(header);
  if (hash !== header.hash) {
    return `the header of block ${Number(header.number)} has the hash ${hash}, not ${header.hash}`;
  }
  const root = computeTrieRoot(receipts.map(encodeReceipt));
  return root === header.receiptsRoot
    ? null
    : `the receipts of block ${Number(header.number)} have the root ${root}, not ${header.receiptsRoot}`;
}
