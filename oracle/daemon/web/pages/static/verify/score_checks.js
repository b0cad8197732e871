"use strict";
/* Checks the scores of a bundle: that they are those of the leaf, follow from the events, and give
   the QoS that the leaf states. Needs bundle_checks.js, scoring.js, round.js and proof.js, and does
   not use the document. */

const SCORE_FIELDS = ["task", "group", "rank", "elapsed", "score", "time", "creator"];

function isSamePosition(first, second) {
  return comparePositions(getPosition(first), getPosition(second)) === 0;
}

/* Returns the first difference between two lists of scores, or null. `seq` is not compared, because it
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

/* Returns whether a pool may contain scores without a task: copies that a restart or rejoin_floor added. */
function mayHaveCopies(rules) {
  return rules.restarts.length > 0 || (rules.rejoin_floor !== null && rules.reseed_copies > 0);
}

function areConsecutive(entries) {
  return entries.every(
    (entry, index) =>
      index === 0 ||
      (entry.seq === entries[index - 1].seq + 1 &&
        comparePositions(getPosition(entries[index - 1].at), getPosition(entry.at)) <= 0),
  );
}

/* Checks the scores of the bundle against the pool hash of the leaf. */
function checkPool(bundle, leaf, rules) {
  const { scores } = bundle;
  const pool = scores.map(({ score }) => score);
  const isOfLeaf =
    pool.length === leaf.score_count &&
    sumScores(pool) === leaf.score_sum &&
    hashBytes(Uint8Array.from(pool)) === leaf.pool_hash;
  const text = `The ${pool.length} scores with the sum ${sumScores(pool)}`;
  if (!isOfLeaf && mayHaveCopies(rules)) {
    return makeCheck("Pool", null, "Under these rules, a pool may have scores without a task.", true);
  }
  if (!isOfLeaf) {
    const leafText = `${leaf.score_count} with the sum ${leaf.score_sum}, and their hash`;
    return makeCheck("Pool", false, `${text} are not those that the leaf states: ${leafText}.`);
  }
  if (!areConsecutive(scores)) {
    return makeCheck("Pool", false, `${text} are not consecutive: a score is missing.`);
  }
  if (scores.length > 0 && scores.at(-1).time !== leaf.last_scored_at) {
    return makeCheck("Pool", false, `${text} end at another time than the leaf states.`);
  }
  return makeCheck("Pool", true, `${text} are those that the leaf states.`);
}

/* Returns a score that does not follow from its rank, or undefined. */
function findWrongScore(scores, rules) {
  return scores.find(({ rank, score }) => {
    const points = rank === null ? rules.absent_score : getPoints(rank, rules);
    return !isCount(score) || score !== points;
  });
}

function checkPoints(scores, rules) {
  if (scores.length === 0) {
    return makeCheck("Points", null, "The bundle has no score.", true);
  }
  const wrong = findWrongScore(scores, rules);
  return makeCheck(
    "Points",
    wrong === undefined,
    wrong === undefined
      ? `Each score is that of its rank: ${rules.rank_scores.join(", ")}, and ${rules.absent_score} without a rank.`
      : `The score ${wrong.seq} is ${wrong.score}, but has the rank ${wrong.rank ?? "none"}.`,
  );
}

/* Returns the long-term scores that a leaf allows. An empty pool has the score of a new node, or of a
   node that joined again. */
function listLongTerms(leaf, rules) {
  if (leaf.score_count === 0 || (leaf.score_sum === 0 && rules.zero_mean_is_new)) {
    return [rules.new_node_long_term, rules.rejoin_floor].filter((value) => value !== null);
  }
  return [(BigInt(leaf.score_sum) * UNIT) / BigInt(leaf.score_count * rules.q_max)];
}

function findExclusionFault(leaf, reliability, rules) {
  const { exclude_enter: enter, exclude_exit: exit } = rules;
  if (!leaf.is_member) {
    return leaf.is_excluded || leaf.is_paused ? "a node that left is paused or excluded" : null;
  }
  const isLow = reliability < (leaf.is_excluded ? exit : enter);
  return isLow === leaf.is_excluded ? null : "the flag of the exclusion does not follow from H";
}

/* Checks that the lane of the leaf follows from its pool, its H and its flags. */
function checkQos(leaf, rules) {
  const reliability = parseUnits(leaf.reliability, "H");
  const isSelectable = leaf.is_member && !leaf.is_paused && !leaf.is_excluded;
  const lanes = isSelectable
    ? listLongTerms(leaf, rules).map(
        (mean) => Number(multiplyUnits(mean, reliability) / LANE_STEP) + LOWEST_SCORE_LANE,
      )
    : [DO_NOT_SELECT];
  let fault = findExclusionFault(leaf, reliability, rules);
  if (fault === null && reliability > UNIT) {
    fault = "H is above 1";
  } else if (fault === null && !lanes.includes(leaf.lane)) {
    fault = `the lane ${leaf.lane} is not ${lanes.join(" or ")}`;
  }
  const stated = leaf.qos === null ? "“do not select”" : `the QoS ${leaf.qos.slice(0, -14)}`;
  return makeCheck(
    "QoS",
    fault === null,
    fault === null
      ? `The pool and H ${leaf.reliability.slice(0, -14)} give ${stated}. H, pauses and membership can be checked only with the file of all events.`
      : `The leaf states ${stated}, which is wrong: ${fault}.`,
  );
}

/* Returns the scores that the events give for a node and these tasks, with creators as they were known
   at a position. */
function listFoldedScores(fold, node, expected, at) {
  const tasks = new Set(expected.map((score) => score.task));
  const scores = fold.scores.filter((score) => score.node === node && tasks.has(score.task));
  return fold.addCreators(scores, at);
}

/* Returns the first score that follows from the events but is missing among those of the bundle. */
function findLeftOutScore(bundle, entries, fold) {
  const [first] = bundle.scores;
  const tasks = new Set([...bundle.scores, ...entries].map((score) => score.task));
  return fold.scores.find(
    (score) =>
      first !== undefined &&
      score.node === bundle.node &&
      !tasks.has(score.task) &&
      comparePositions(score.at, getPosition(first.at)) > 0,
  );
}

/* Checks that folding the events of the bundle gives the scores of the leaf and of the evidence. */
function checkBundledEvents(bundle, evidence, rules) {
  const entries = evidence?.entries ?? [];
  if (bundle.scores.length + entries.length === 0) {
    return makeCheck("Events", null, "The bundle has no score that events could give.", true);
  }
  const asOf = bundle.signed_round.as_of;
  const fold = new Fold(rules).apply(bundle.events.filter((event) => event.block <= asOf));
  const end = { block: asOf + 1, tx: 0, log: 0, sub: 0 };
  const difference =
    findScoreDifference(bundle.scores, listFoldedScores(fold, bundle.node, bundle.scores, end)) ??
    findScoreDifference(
      entries,
      listFoldedScores(fold, bundle.node, entries, getPosition(evidence?.due_since ?? end)),
    );
  const leftOut = findLeftOutScore(bundle, entries, fold);
  let text = `${bundle.events.length} events give the same scores, each with its task, creator, group, rank, time and log.`;
  if (difference !== null) {
    text = `${bundle.events.length} events give other scores: ${difference}.`;
  } else if (leftOut !== undefined) {
    text = `The events give a score of task ${leftOut.task}, which is left out.`;
  }
  return makeCheck("Events", difference === null && leftOut === undefined, text);
}

/* Returns the checks of the scores, and of what the leaf states about a kickout. */
function checkScores(bundle, events, rules) {
  const evidence = bundle.evidence === null ? null : parseEvidence(bundle);
  const leaf = decodeLeaf(bundle.proof.leaf.encoded);
  const checks = [
    checkPool(bundle, leaf, rules),
    checkPoints([...bundle.scores, ...(evidence?.entries ?? [])], rules),
    checkQos(leaf, rules),
    checkBundledEvents(bundle, evidence, rules),
  ];
  if (evidence !== null) {
    checks.push(checkEvidence(bundle, evidence, rules));
  }
  checks.push(checkDue(bundle, evidence, leaf, rules));
  if (evidence !== null) {
    checks.push(checkHeld(bundle, evidence, leaf, rules));
  }
  checks.push(checkAllEvents(bundle, evidence, events, rules, leaf));
  return checks;
}
