"use strict";
/* Checks an evidence bundle (docs/spec/evidence.md#bundle) with what it contains itself, and with all
   events of the network if the reader has them. Needs scoring.js, round.js, signatures.js,
   proof.js and hashes.js, and does not use the document.

   A check is {name, is_true, text}: true, false, or null if something is missing. */

const BUNDLE_VERSION = 1;
const FORMULA_VERSION = 2;
const SCORE_FIELDS = ["task", "group", "rank", "elapsed", "score", "time"];

function makeCheck(name, isTrue, text) {
  return { name, is_true: isTrue, text };
}

/* Returns the text of a JSON value with sorted keys and without spaces, as the rules are hashed. */
function formatCanonical(value) {
  if (Array.isArray(value)) {
    return `[${value.map(formatCanonical).join(",")}]`;
  }
  if (value !== null && typeof value === "object") {
    const members = Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${formatCanonical(value[key])}`);
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value);
}

function hashSha256(text) {
  return formatHex(sha256(new TextEncoder().encode(text)));
}

function isSamePosition(first, second) {
  return comparePositions(getPosition(first), getPosition(second)) === 0;
}

/* Returns in which value two lists of scores differ first, or null. `seq` is not compared, because it
   counts all scores of a node. */
function findScoreDifference(expected, scores) {
  if (expected.length !== scores.length) {
    return `${scores.length} scores instead of ${expected.length}`;
  }
  for (const [index, score] of scores.entries()) {
    const field = SCORE_FIELDS.find((name) => score[name] !== expected[index][name]);
    if (field !== undefined) {
      return `score ${index + 1} has the ${field} ${score[field]} instead of ${expected[index][field]}`;
    }
    if (!isSamePosition(score.at, expected[index].at)) {
      return `score ${index + 1} is at another log`;
    }
  }
  return null;
}

function checkBundleVersion(bundle) {
  const isRight = bundle.bundle_version === BUNDLE_VERSION;
  return makeCheck("Bundle", isRight, `It has version ${bundle.bundle_version}.`);
}

/* The rules: their text gives the hash that every signature of the round includes. */
function checkRules(bundle, rules) {
  const { signed_round: round } = bundle;
  const hash = hashSha256(bundle.rules_id);
  const title = `${rules.name}, version ${rules.version}`;
  if (round.configuration === null) {
    return makeCheck(
      "Rules",
      null,
      `The scores follow ${title}. The contract has another configuration since, so its rules cannot be compared.`,
    );
  }
  const digest = computeConfigDigest({ ...round, ...round.configuration, rules_hash: hash });
  return makeCheck(
    "Rules",
    digest === round.config,
    digest === round.config
      ? `The scores follow ${title}, whose hash ${hash} was signed with the round.`
      : `The rules have the hash ${hash}, which is not the one that was signed with the round, or the configuration is another one.`,
  );
}

function checkSignatures(bundle) {
  const { signed_round: round } = bundle;
  if (round.signatures.length === 0 || round.configuration === null) {
    const text =
      round.configuration === null
        ? "The contract has another configuration since."
        : "The server has none; an RPC endpoint finds them in the transaction of the round.";
    return makeCheck("Signatures", null, text);
  }
  const { signers, quorum } = round.configuration;
  const digest = computeReportDigest(round);
  const valid = new Set(
    round.signatures
      .map((signature) => recoverSigner(digest, signature))
      .filter((signer) => signers.includes(signer)),
  );
  const text = `${valid.size} of the ${signers.length} signers signed the round; ${quorum} are needed.`;
  return makeCheck("Signatures", valid.size >= quorum && quorum > 0, text);
}

/* The leaf and its path to the root of the round. */
function checkBundleProof(bundle) {
  const { signed_round: round } = bundle;
  const expected = {
    address: bundle.node,
    chain_id: round.chain_id,
    oracle: round.contract,
    round: round.round,
    as_of: round.as_of,
    root: round.root,
    other_root: null,
  };
  const result = checkProof(bundle.proof, expected);
  const wrong = result.checks.filter((check) => !check.is_true);
  const text = result.is_true
    ? `The leaf of ${bundle.node} and ${bundle.proof.proof.length} hashes lead to the root of round ${round.round}.`
    : wrong.map((check) => `${check.name}: ${check.text}`).join(" ");
  return makeCheck("Proof", result.is_true, text);
}

/* The scores in the bundle are those of the leaf, by their hash. */
function checkPool(bundle, leaf, rules) {
  const pool = bundle.scores.map((score) => score.score);
  if (rules.restarts.length > 0) {
    return makeCheck("Pool", null, "Under rules with restarts, a pool has scores without a task.");
  }
  const isRight =
    pool.length === leaf.score_count &&
    sumScores(pool) === leaf.score_sum &&
    hashBytes(Uint8Array.from(pool)) === leaf.pool_hash;
  return makeCheck(
    "Pool",
    isRight,
    isRight
      ? `The ${pool.length} scores with the sum ${leaf.score_sum} are those that the leaf states.`
      : `The ${pool.length} scores with the sum ${sumScores(pool)} are not those that the leaf states: ${leaf.score_count} with the sum ${leaf.score_sum}, and their hash.`,
  );
}

/* Each score is the one of its rank. */
function findWrongScore(scores, rules) {
  return scores.find(({ rank, score }) => {
    const points = rank === null ? rules.absent_score : getPoints(rank, rules);
    return !isCount(score) || score !== points;
  });
}

function checkPoints(scores, rules) {
  const wrong = findWrongScore(scores, rules);
  return makeCheck(
    "Points",
    wrong === undefined,
    wrong === undefined
      ? `Each score is that of its rank: ${rules.rank_scores.join(", ")}, and ${rules.absent_score} without a rank.`
      : `The score ${wrong.seq} is ${wrong.score}, but has the rank ${wrong.rank ?? "none"}.`,
  );
}

/* The events of the bundle, folded again, give the scores of the leaf and of the evidence. */
function checkBundledEvents(bundle, entries, rules) {
  const fold = new Fold(rules).apply(bundle.events);
  const differences = [bundle.scores, entries].map((expected) => {
    const tasks = new Set(expected.map((score) => score.task));
    const folded = fold.scores.filter(({ node, task }) => node === bundle.node && tasks.has(task));
    return findScoreDifference(expected, folded);
  });
  const difference = differences.find((found) => found !== null) ?? null;
  return makeCheck(
    "Events",
    difference === null,
    difference === null
      ? `${bundle.events.length} events give the same scores, each with its task, group, rank, time and log.`
      : `${bundle.events.length} events give other scores: ${difference}.`,
  );
}

function parseEvidence(bundle) {
  const evidence = JSON.parse(bundle.evidence);
  if (!Array.isArray(evidence.entries)) {
    throw new Error("the evidence has no entries");
  }
  return evidence;
}

function findEvidenceFault(bundle, evidence, rules) {
  const { entries } = evidence;
  const { signed_round: round } = bundle;
  const sum = sumScores(entries.map((entry) => entry.score));
  const spread = computeCreatorSpread(entries, rules);
  const ruleText = formatCanonical(JSON.parse(bundle.rules_id).rules);
  const isInOrder = entries.every(
    (entry, index) =>
      index === 0 ||
      (entry.seq === entries[index - 1].seq + 1 &&
        comparePositions(getPosition(entries[index - 1].at), getPosition(entry.at)) <= 0),
  );
  const faults = {
    "it is about another node": evidence.node !== bundle.node,
    "it is of another chain or contract":
      evidence.chain_id !== round.chain_id || evidence.contract !== round.contract,
    "its account ids are those of others":
      evidence.account_id !== formatAccountId(round.chain_id, bundle.node) ||
      evidence.oracle_account_id !== formatAccountId(round.chain_id, round.contract),
    "it has another version of the formula": evidence.formula_version !== FORMULA_VERSION,
    "it names other rules": `0x${evidence.rules_sha256}` !== hashSha256(ruleText),
    "it has another kickout line": evidence.kickout_below !== formatUnits(rules.kickout_below),
    [`it has ${entries.length} scores instead of ${rules.pool_size}`]:
      entries.length !== rules.pool_size,
    "a score is left out, or they are not in order": !isInOrder,
    [`its scores have the sum ${sum}, not ${evidence.sum}`]: evidence.sum !== sum,
    "its numbers of creators are wrong": Object.entries(spread).some(
      ([name, value]) => evidence[name] !== value,
    ),
    "its last score closed after the kickout became due":
      entries.length > 0 &&
      comparePositions(getPosition(entries.at(-1).at), getPosition(evidence.due_since)) > 0,
    "its scores are not low enough for a kickout": !areScoresLow(sum, entries.length, rules),
  };
  return Object.keys(faults).find((fault) => faults[fault]) ?? null;
}

function checkEvidence(bundle, evidence, rules) {
  const fault = findEvidenceFault(bundle, evidence, rules);
  const line = formatUnits(rules.kickout_below * BigInt(rules.pool_size)).replace(/\.?0+$/, "");
  return makeCheck(
    "Evidence",
    fault === null,
    fault === null
      ? `${evidence.entries.length} scores in a row have the sum ${evidence.sum}; below ${line} a kickout is due.`
      : `The evidence is wrong: ${fault}.`,
  );
}

/* The leaf states since when the kickout is due, and whether it is held. */
function checkDue(bundle, evidence, leaf) {
  if (leaf.kickout_due_since === null) {
    return makeCheck("Due since", evidence === null, "The leaf states that no kickout is due.");
  }
  if (evidence === null) {
    return makeCheck("Due since", null, "The server has no evidence for the due kickout.");
  }
  const last = evidence.entries.at(-1);
  const isAtScore = isSameTransaction(getPosition(last.at), getPosition(evidence.due_since));
  if (!isAtScore) {
    const text = "It became due after its last score, where it joined again, as all events show.";
    return makeCheck("Due since", leaf.kickout_due_since >= last.time ? null : false, text);
  }
  const isRight = leaf.kickout_due_since === last.time;
  const text = `The kickout is due since ${formatProofTime(leaf.kickout_due_since)}`;
  return makeCheck(
    "Due since",
    isRight,
    isRight ? `${text}, when the last of the scores closed.` : `${text}, but its last score closed at ${formatProofTime(last.time)}.`,
  );
}

function checkHeld(bundle, evidence, leaf, rules) {
  let reason = bundle.holds_kickouts ? "the profile of the network holds every kickout" : null;
  reason ??= findHoldReason(evidence.entries, rules);
  const isRight = leaf.is_held === (reason !== null);
  const flag = leaf.is_held
    ? "The leaf states that the kickout is held until an operator decides"
    : "The leaf states that the kickout is not held";
  return makeCheck(
    "Held",
    isRight,
    `${flag}${isRight ? "" : ", but it should"}: ${reason ?? "no creator decides it alone"}.`,
  );
}

function formatPosition(event) {
  return Object.values(getPosition(event)).join(":");
}

/* Returns the first event of the bundle that is not among all events, or undefined. */
function findStrangeEvent(bundle, events) {
  const eventByPosition = new Map(events.map((event) => [formatPosition(event), event]));
  return bundle.events.find((event) => {
    const other = eventByPosition.get(formatPosition(event));
    return other === undefined || formatCanonical(event) !== formatCanonical(other);
  });
}

/* Returns in what the fold of all events differs from the bundle, or null. */
function findFoldDifference(bundle, evidence, fold, leaf, leaves) {
  const own = leaves.find((candidate) => candidate.node === bundle.node);
  if (own === undefined) {
    return `no event names ${bundle.node}`;
  }
  const stated = decodeLeaf(encodeLeaf(own));
  const wrong = Object.keys(stated).filter((name) => stated[name] !== leaf[name]);
  if (wrong.length > 0) {
    return `the leaf differs: ${wrong.join(", ")}`;
  }
  const scoreBySeq = new Map(
    fold.scores.filter(({ node }) => node === bundle.node).map((score) => [score.seq, score]),
  );
  const entries = [...bundle.scores, ...(evidence?.entries ?? [])];
  const folded = entries.map(({ seq }) => scoreBySeq.get(seq)).filter(Boolean);
  const difference = findScoreDifference(entries, folded);
  if (difference !== null || evidence === null) {
    return difference;
  }
  const { due } = fold.nodes.get(bundle.node);
  if (due === null || !isSamePosition(due.at, evidence.due_since)) {
    return "the kickout became due at another log";
  }
  const stranger = due.entries.find(
    ({ creator }, index) => creator !== evidence.entries[index]?.creator,
  );
  return stranger === undefined ? null : `the creator of score ${stranger.seq} differs`;
}

/* All events of the network give the same leaf and the same root. */
function checkAllEvents(bundle, evidence, events, rules, leaf) {
  const { signed_round: round } = bundle;
  if (round.as_of_time === null) {
    return makeCheck("All events", null, "The time of the as-of block is not in the bundle.");
  }
  const strange = findStrangeEvent(bundle, events);
  if (strange !== undefined) {
    const text = `${strange.type} of the bundle (block ${strange.block}, log ${strange.log}) is not among all events.`;
    return makeCheck("All events", false, text);
  }
  const counted = events.filter((event) => event.block <= round.as_of);
  const fold = new Fold(rules).apply(counted);
  const policy = { holds_kickouts: bundle.holds_kickouts, undecoded: [] };
  const leaves = buildLeaves(fold, round.as_of_time, policy);
  const count = `${counted.length.toLocaleString("en-US")} events of ${leaves.length} nodes`;
  const difference = findFoldDifference(bundle, evidence, fold, leaf, leaves);
  if (difference !== null) {
    return makeCheck("All events", false, `${count} give something else: ${difference}.`);
  }
  const { root } = computeRound(leaves, {
    chain_id: round.chain_id,
    oracle: round.contract,
    round: round.round,
    as_of: round.as_of,
  });
  const isRight = root === round.root;
  const text = isRight
    ? `${count} give the root of round ${round.round}, and this leaf.`
    : `${count} give the same leaf, but the root ${root}: another node differs.`;
  return makeCheck("All events", isRight, text);
}

function runChecks(bundle, events) {
  const given = JSON.parse(bundle.rules_id).rules;
  const checks = [
    checkBundleVersion(bundle),
    checkRules(bundle, given),
    checkSignatures(bundle),
    checkBundleProof(bundle),
  ];
  if (bundle.proof.is_absent) {
    return checks;
  }
  if (given.legacy !== undefined) {
    checks.push(makeCheck("Scores", null, "Scores of legacy rules cannot be computed here."));
    return checks;
  }
  return [...checks, ...checkScores(bundle, events, parseRules(given))];
}

/* The checks of the scores, and of what the leaf states about a kickout. */
function checkScores(bundle, events, rules) {
  const evidence = bundle.evidence === null ? null : parseEvidence(bundle);
  const leaf = decodeLeaf(bundle.proof.leaf.encoded);
  const entries = evidence === null ? [] : evidence.entries;
  const checks = [
    checkPool(bundle, leaf, rules),
    checkPoints([...bundle.scores, ...entries], rules),
    checkBundledEvents(bundle, entries, rules),
  ];
  if (evidence !== null) {
    checks.push(checkEvidence(bundle, evidence, rules));
  }
  checks.push(checkDue(bundle, evidence, leaf));
  if (evidence !== null) {
    checks.push(checkHeld(bundle, evidence, leaf, rules));
  }
  checks.push(
    events === null
      ? makeCheck("All events", null, "No file with all events was given.")
      : checkAllEvents(bundle, evidence, events, rules, leaf),
  );
  return checks;
}

/* Returns the checks of a bundle. `events` are all events of the network, or null. */
function checkBundle(bundle, events) {
  try {
    return runChecks(bundle, events);
  } catch (error) {
    /* What cannot be read proves nothing. */
    return [makeCheck("Bundle", false, `It is malformed: ${error.message}.`)];
  }
}
