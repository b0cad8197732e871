"use strict";
/* Computes the leaves and the root of a round from a fold (docs/spec/leaves.md). Needs scoring.js,
   hashes.js and proof.js, and does not use the document. */

const DO_NOT_SELECT = 1;
const LANE_STEP = 10n ** 14n;
const LANES_PER_WORD = 16;
/* A creator's scores are decisive if the mean of the others is at least 5/4 of the line. */
const CLEARLY_ABOVE = [5n, 4n];

function isFeedPosition(at) {
  return at.tx < 0;
}

/* Returns how the scores are distributed over the creators of their tasks; null counts as a creator. */
function computeCreatorSpread(entries, rules) {
  const countByCreator = new Map();
  const sumByCreator = new Map();
  for (const { creator, score } of entries) {
    countByCreator.set(creator, (countByCreator.get(creator) ?? 0) + 1);
    sumByCreator.set(creator, (sumByCreator.get(creator) ?? 0) + score);
  }
  const total = sumScores(entries.map((entry) => entry.score));
  const [numerator, denominator] = CLEARLY_ABOVE;
  let decisive = 0;
  for (const [creator, count] of countByCreator) {
    const others = BigInt(entries.length - count);
    const sum = BigInt(total - sumByCreator.get(creator));
    const isClear = sum * UNIT * denominator >= rules.kickout_below * others * numerator;
    if (others > 0n && isClear) {
      decisive = Math.max(decisive, count);
    }
  }
  return {
    creators: countByCreator.size,
    most_of_one_creator: Math.max(0, ...countByCreator.values()),
    decisive_of_one_creator: decisive,
  };
}

/* Returns whether the sum of some scores is below the kickout line. */
function areScoresLow(sum, count, rules) {
  return BigInt(sum) * UNIT < rules.kickout_below * BigInt(count);
}

/* Returns the reason to hold a kickout until the vetoer allows it, or null. */
function findHoldReason(entries, rules, incidentScores) {
  const sum = sumScores(entries.map((entry) => entry.score));
  if (entries.length < rules.pool_size || !areScoresLow(sum, entries.length, rules)) {
    return "a restart replaced scores by their mean";
  }
  const spread = computeCreatorSpread(entries, rules);
  if (rules.kick_creator_share < UNIT) {
    const maxScores = BigInt(spread.most_of_one_creator) * UNIT;
    if (maxScores > rules.kick_creator_share * BigInt(entries.length)) {
      return `${spread.most_of_one_creator} of ${entries.length} scores come from one creator`;
    }
    if (spread.decisive_of_one_creator > 0) {
      return `it depends on the ${spread.decisive_of_one_creator} scores of one creator`;
    }
  }
  if (BigInt(incidentScores) * UNIT > rules.kick_incident_share * BigInt(entries.length)) {
    return `${incidentScores} of ${entries.length} scores are timeouts in incidents`;
  }
  const derived = entries.filter(({ rank, at }) => rank === null && isFeedPosition(at)).length;
  const isStillLow = isBelowLine(sum + derived * rules.q_max, rules);
  return derived > 0 && !isStillLow ? "it depends on derived zeros" : null;
}

function findDueHoldReason(fold, due) {
  return findHoldReason(due.entries, fold.rules, fold.countIncidentScores(due));
}

function computeLane(fold, node, time) {
  const qos = fold.getQos(node, time);
  if (node.isPaused || qos === null || fold.isExcluded(node, time)) {
    return DO_NOT_SELECT;
  }
  return Number(qos / LANE_STEP) + LOWEST_SCORE_LANE;
}

/* Returns the values of a node's leaf. `policy.holds_kickouts` is the profile's, and
   `policy.undecoded` has the nodes whose evidence contains a log that could not be decoded. */
function buildLeaf(fold, node, nextNode, time, policy) {
  const isDue =
    node.due !== null && fold.isKickoutDue(node, time) && !policy.undecoded.includes(node.address);
  const isHeld = isDue && (policy.holds_kickouts || findDueHoldReason(fold, node.due) !== null);
  const flags = [
    node.membership === "member",
    node.isPaused,
    fold.isExcluded(node, time),
    isHeld,
  ].reduce((bits, isSet, bit) => bits | (isSet ? 1 << bit : 0), 0);
  return {
    node: node.address,
    next_node: nextNode,
    lane: computeLane(fold, node, time),
    flags,
    seat: node.seat,
    score_count: node.pool.length,
    score_sum: sumScores(node.pool),
    reliability: fold.getReliability(node, time),
    kickout_due_since: isDue ? node.due.time : 0,
    last_scored_at: node.lastScoredAt ?? 0,
    pool_hash: hashBytes(Uint8Array.from(node.pool)),
  };
}

function encodeWord(value) {
  return BigInt(value).toString(16).padStart(64, "0");
}

function encodeLeaf(leaf) {
  let fields = 0n;
  let offset = 0n;
  for (const [name, bits] of Object.entries(LEAF_FIELD_BITS)) {
    fields |= BigInt(leaf[name]) << offset;
    offset += BigInt(bits);
  }
  const words = [leaf.node, leaf.next_node, fields, leaf.pool_hash].map(encodeWord);
  return `0x${words.join("")}`;
}

/* Returns the leaves of all nodes as of a block time, in the order of their seats. */
function buildLeaves(fold, time, policy) {
  const addresses = [...fold.nodes.keys()].sort();
  const leaves = addresses.map((address, index) => {
    const next = addresses[(index + 1) % addresses.length];
    return buildLeaf(fold, fold.nodes.get(address), next, time, policy);
  });
  return leaves.sort((first, second) => first.seat - second.seat);
}

function computeTreeRoot(hashes) {
  let level = [...hashes];
  while (level.length > 1 && (level.length & (level.length - 1)) !== 0) {
    level.push(EMPTY_HASH);
  }
  while (level.length > 1) {
    level = level.flatMap((hash, index) =>
      index % 2 === 0 ? [hashPair(hash, level[index + 1])] : [],
    );
  }
  return level[0] ?? EMPTY_HASH;
}

const EMPTY_HASH = `0x${"0".repeat(64)}`;

function hashEncoded(encoded) {
  return hashLeaf(decodeHex(encoded));
}

function hashLaneWords(lanes) {
  const hashes = [];
  for (let first = 0; first < lanes.length; first += LANES_PER_WORD) {
    const word = lanes
      .slice(first, first + LANES_PER_WORD)
      .reduce((bits, lane, position) => bits | (BigInt(lane) << BigInt(16 * position)), 0n);
    hashes.push(hashEncoded(`0x${encodeWord(first / LANES_PER_WORD)}${encodeWord(word)}`));
  }
  return hashes;
}

/* Returns root and summary of a round. `round` has chain_id, oracle, round and as_of. */
function computeRound(leaves, round) {
  const lanes = leaves.map((leaf) => leaf.lane);
  const weights = lanes.filter((lane) => lane > DO_NOT_SELECT).map((lane) => lane - 1);
  const summary = {
    ...round,
    node_count: leaves.length,
    open_count: weights.length,
    total_weight: sumScores(weights),
  };
  const nodesRoot = computeTreeRoot(leaves.map((leaf) => hashEncoded(encodeLeaf(leaf))));
  const wordsRoot = computeTreeRoot(hashLaneWords(lanes));
  const summaryHash = hashLeaf(encodeSummary(summary));
  return { summary, root: hashPair(summaryHash, hashPair(nodesRoot, wordsRoot)) };
}
