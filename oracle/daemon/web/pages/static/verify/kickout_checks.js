"use strict";
/* Checks what a bundle states about a due kickout: the evidence, since when it is due, whether it is
   held. Needs score_checks.js, and does not use the document. */

const FORMULA_VERSION = 2;

function parseEvidence(bundle) {
  const evidence = JSON.parse(bundle.evidence);
  if (!Array.isArray(evidence.entries)) {
    throw new Error("the evidence has no entries");
  }
  return evidence;
}

/* Returns whether two lists have different scores with the same `seq`. */
function hasConflict(entries, scores) {
  const taskBySeq = new Map(scores.map(({ seq, task }) => [seq, task]));
  return entries.some(({ seq, task }) => (taskBySeq.get(seq) ?? task) !== task);
}

/* Returns whether the pool rose above the kickout line after the kickout had become due, which ended it.
   The pools in between are known only if no score is missing. */
function hasHighPool(entries, scores, rules) {
  const all = [...entries, ...scores.filter(({ seq }) => seq > entries.at(-1)?.seq)];
  return (
    areConsecutive(all) &&
    all.some((_, index) => {
      const pool = all.slice(index, index + rules.pool_size).map(({ score }) => score);
      return pool.length === rules.pool_size && !isBelowLine(sumScores(pool), rules);
    })
  );
}

/* Only zeros without an answer can be scores in an incident. */
function countUnanswered(entries) {
  return entries.filter(({ score, elapsed }) => score === 0 && elapsed === null).length;
}

function isIncidentCountPossible(evidence, rules) {
  const count = evidence.scores_in_incidents;
  return rules.kick_incident_share < UNIT
    ? isCount(count) && count <= countUnanswered(evidence.entries)
    : count === undefined;
}

function findEvidenceFault(bundle, evidence, rules) {
  const { entries } = evidence;
  const { signed_round: round } = bundle;
  const sum = sumScores(entries.map((entry) => entry.score));
  const spread = computeCreatorSpread(entries, rules);
  const ruleText = formatCanonical(JSON.parse(bundle.rules_id).rules);
  const faults = {
    "it is about another node": evidence.node !== bundle.node,
    "it is of another chain or contract":
      evidence.chain_id !== round.chain_id || evidence.contract !== round.contract,
    "its account ids belong to other addresses":
      evidence.account_id !== formatAccountId(round.chain_id, bundle.node) ||
      evidence.oracle_account_id !== formatAccountId(round.chain_id, round.contract),
    "it has another version of the formula": evidence.formula_version !== FORMULA_VERSION,
    "it was made under other rules": `0x${evidence.rules_sha256}` !== hashSha256(ruleText),
    "it has another kickout line": evidence.kickout_below !== formatUnits(rules.kickout_below),
    [`it has ${entries.length} scores instead of ${rules.pool_size}`]:
      entries.length !== rules.pool_size,
    "a score is missing, or the scores are not in order": !areConsecutive(entries),
    "its scores differ from those of the pool": hasConflict(entries, bundle.scores),
    [`its scores have the sum ${sum}, not ${evidence.sum}`]: evidence.sum !== sum,
    "its numbers of creators are wrong": Object.entries(spread).some(
      ([name, value]) => evidence[name] !== value,
    ),
    "its number of scores in incidents is impossible": !isIncidentCountPossible(evidence, rules),
    "its last score closed after the kickout became due":
      entries.length > 0 &&
      comparePositions(getPosition(entries.at(-1).at), getPosition(evidence.due_since)) > 0,
    "its scores are not low enough for a kickout": !areScoresLow(sum, entries.length, rules),
    "a later pool was not below the line": hasHighPool(entries, bundle.scores, rules),
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

/* Returns why a due kickout cannot have begun where the evidence states, or null. */
function findOpeningFault(evidence, leaf, rules) {
  const last = evidence.entries.at(-1);
  const [closed, opened] = [last.at, evidence.due_since].map(getPosition);
  if (!isSameTransaction(closed, opened)) {
    /* The node joined again later; only the file with all events contains the join. */
    return leaf.kickout_due_since >= last.time ? null : "it began before its last score closed";
  }
  if (leaf.kickout_due_since !== last.time) {
    return `its last score closed at ${formatProofTime(last.time)}`;
  }
  const waitsForVerdict = rules.close === "validated" && rules.ranked_answers === "right";
  return waitsForVerdict || comparePositions(closed, opened) === 0
    ? null
    : "the evidence does not name the log of its last score";
}

function checkNoDue(leaf, evidence, isLow) {
  if (evidence !== null || leaf.is_held) {
    const text = "The leaf states that no kickout is due, but it is held, or there is evidence.";
    return makeCheck("Due since", false, text);
  }
  if (isLow) {
    const text =
      "The leaf states that no kickout is due, but its pool is full and below the kickout line. The reason, a node that left or replaced scores, is only in the file with all events.";
    return makeCheck("Due since", null, text, true);
  }
  return makeCheck("Due since", true, "No kickout is due: the pool is not full, or not below the kickout line.");
}

/* Checks since when the kickout is due by the leaf. */
function checkDue(bundle, evidence, leaf, rules) {
  const isLow = leaf.score_count === rules.pool_size && isBelowLine(leaf.score_sum, rules);
  if (leaf.kickout_due_since === null) {
    return checkNoDue(leaf, evidence, isLow);
  }
  const text = `The kickout is due since ${formatProofTime(leaf.kickout_due_since)}`;
  if (!isLow) {
    return makeCheck("Due since", false, `${text}, but the pool is not full, or not below the kickout line.`);
  }
  if (evidence === null) {
    return makeCheck("Due since", null, `${text}, but the server has no evidence for it.`);
  }
  const fault = findOpeningFault(evidence, leaf, rules);
  if (fault !== null) {
    return makeCheck("Due since", false, `${text}, but ${fault}.`);
  }
  const [closed, opened] = [evidence.entries.at(-1).at, evidence.due_since].map(getPosition);
  return isSameTransaction(closed, opened)
    ? makeCheck("Due since", true, `${text}, when the last of the scores closed.`)
    : makeCheck("Due since", null, `${text}, when the node joined again. Only the file with all events can confirm this.`, true);
}

/* Checks the flag of a held kickout against the evidence, as far as a bundle shows the reasons. */
function checkHeld(bundle, evidence, leaf, rules) {
  const { entries } = evidence;
  const reason = findHoldReason(entries, rules, 0);
  const flag = leaf.is_held
    ? "The leaf states that the kickout is held until an operator decides"
    : "The leaf states that the kickout is not held";
  if (reason !== null) {
    const contrast = leaf.is_held ? "" : ", but it should";
    return makeCheck("Held", leaf.is_held, `${flag}${contrast}: ${reason}.`);
  }
  if (bundle.holds_kickouts) {
    const isKnown = findProfile(bundle) !== undefined;
    const text = `${flag}. The bundle states that the profile of the network holds every kickout${isKnown ? "" : ", and this page does not know the profile"}.`;
    return makeCheck("Held", leaf.is_held && !isKnown ? null : leaf.is_held, text);
  }
  if (findHoldReason(entries, rules, countUnanswered(entries)) !== null) {
    const text = `${flag}. By the rule kick_incident_share it depends on incidents, which only the file with all events shows.`;
    return makeCheck("Held", null, text, true);
  }
  const contrast = leaf.is_held ? ", but there is no reason" : ": there is no reason";
  return makeCheck("Held", !leaf.is_held, `${flag}${contrast}.`);
}
