"use strict";
/* Checks an evidence bundle (docs/spec/evidence.md#bundle) with what it contains itself: rules,
   signatures, proof. Needs objection_checks.js, score_checks.js, event_checks.js, signatures.js,
   proof.js and hashes.js, and does not use the document.

   A check is {name, is_true, text, is_optional}: true, false, or null if nothing was compared. An
   optional check that is null concerns nothing that another check does not cover (verdict.js). */

const BUNDLE_VERSION = 1;
const ADDRESS_FORMAT = /^0x[0-9a-f]{40}$/;
const HASH_FORMAT = /^0x[0-9a-f]{64}$/;

function makeCheck(name, isTrue, text, isOptional = false) {
  return { name, is_true: isTrue, text, is_optional: isOptional };
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

function checkBundleVersion(bundle) {
  const isMatch = bundle.bundle_version === BUNDLE_VERSION;
  return makeCheck("Bundle", isMatch, `The bundle has version ${bundle.bundle_version}.`);
}

/* The rules: their text gives the hash that every signature of the round includes. Whether the
   contract has this configuration is checked by `Acceptance`. */
function checkRules(bundle, rules) {
  const { signed_round: round } = bundle;
  const hash = hashSha256(bundle.rules_id);
  const title = `${rules.name}, version ${rules.version}`;
  if (round.configuration === null) {
    return makeCheck(
      "Rules",
      null,
      `The scores follow ${title}. The configuration of the contract has changed since this round, so its rules cannot be compared.`,
    );
  }
  const digest = computeConfigDigest({ ...round, ...round.configuration, rules_hash: hash });
  return makeCheck(
    "Rules",
    digest === round.config,
    digest === round.config
      ? `The scores follow ${title}, whose hash ${hash} is part of the configuration of the round.`
      : `The rules have the hash ${hash}. Together with the signers and the quorum that the bundle names, it does not give the configuration digest of the round.`,
  );
}

function checkSignatures(bundle) {
  const { signed_round: round } = bundle;
  if (round.signatures.length === 0 || round.configuration === null) {
    const text =
      round.configuration === null
        ? "The configuration of the contract has changed since this round."
        : "The server has no signatures; enter an RPC endpoint to read them from the transaction of the round.";
    return makeCheck("Signatures", null, text, true);
  }
  const { signers, quorum } = round.configuration;
  const digest = computeReportDigest(round);
  const valid = new Set(
    round.signatures
      .map((signature) => recoverSigner(digest, signature))
      .filter((signer) => signers.includes(signer)),
  );
  const text = `${valid.size} of the ${signers.length} signers that the bundle names signed the round; ${quorum} are needed.`;
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

/* Returns the name of the first malformed value among those that the page shows or compares, or null. */
function findMalformedValue(bundle) {
  const { signed_round: round } = bundle;
  const isListOf = (values, isValid) => Array.isArray(values) && values.every(isValid);
  const isAddress = (value) => ADDRESS_FORMAT.test(value);
  const isHash = (value) => HASH_FORMAT.test(value);
  const isObject = (value) => value !== null && typeof value === "object";
  const isLog = (log) =>
    isObject(log) && [log.block, log.tx, log.log].every(isCount) && isListOf(log.topics, isHash);
  const validityByField = {
    node: isAddress(bundle.node),
    contract: isAddress(round.contract),
    chain_id: isCount(round.chain_id),
    round: isCount(round.round),
    as_of: isCount(round.as_of),
    as_of_time: round.as_of_time === null || isCount(round.as_of_time),
    as_of_hash: isHash(round.as_of_hash),
    root: isHash(round.root),
    config: isHash(round.config),
    accepted_at: isObject(round.accepted_at) && isCount(round.accepted_at.block),
    holds_kickouts: typeof bundle.holds_kickouts === "boolean",
    scores: isListOf(bundle.scores, isObject),
    events: isListOf(bundle.events, isObject),
    logs: isListOf(bundle.logs, isLog),
    objections: isListOf(bundle.objections, isObject),
  };
  return Object.keys(validityByField).find((name) => !validityByField[name]) ?? null;
}

/* Returns why this page cannot compute scores under rules, or null. */
function findUnsupportedRule(ruleValues) {
  if (ruleValues.legacy !== undefined) {
    return "Scores of legacy rules cannot be computed here.";
  }
  const unknown = Object.keys(ruleValues).find((name) => !Object.hasOwn(RULE_TYPES, name));
  return unknown === undefined
    ? null
    : `This page does not know the rule ${unknown}; use the page of a newer release.`;
}

function runChecks(bundle, events) {
  const malformedField = findMalformedValue(bundle);
  if (malformedField !== null) {
    throw new Error(`${malformedField} is missing or malformed`);
  }
  const ruleValues = JSON.parse(bundle.rules_id).rules;
  const checks = [
    checkBundleVersion(bundle),
    checkRules(bundle, ruleValues),
    checkSignatures(bundle),
    checkBundleProof(bundle),
    ...checkObjections(bundle),
  ];
  const unsupported = findUnsupportedRule(ruleValues);
  if (unsupported !== null) {
    return [...checks, makeCheck("Scores", null, unsupported)];
  }
  const rules = parseRules(ruleValues);
  if (bundle.proof.is_absent) {
    return [...checks, checkAllEvents(bundle, null, events, rules, null)];
  }
  return [...checks, ...checkScores(bundle, events, rules)];
}

/* Returns the checks of a bundle. `events` are all events of the network, or null. */
function checkBundle(bundle, events) {
  try {
    return runChecks(bundle, events);
  } catch (error) {
    /* A bundle that cannot be read proves nothing. */
    return [makeCheck("Bundle", false, `The bundle is malformed: ${error.message}.`)];
  }
}
