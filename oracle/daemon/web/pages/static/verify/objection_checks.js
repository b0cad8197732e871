"use strict";
/* Checks the signatures of a bundle's objections and of the reporter's answers to them
   (docs/spec/evidence.md#objections). No score depends on them. Needs signatures.js. */

const OBJECTIONS_DOMAIN = ["QoSObjections", "1"];
const OBJECTION_TYPE =
  "Objection(address node,uint40 dueSince,uint8 reason,string words,uint32 seq,uint40 deadline)";
const ANSWER_TYPE =
  "ObjectionAnswer(address node,uint40 dueSince,bool isAccepted,string because,uint40 answeredAt)";
/* The number of a reason in the contract is its index in this list. */
const OBJECTION_REASONS = [
  "other",
  "not-on-chain",
  "application",
  "outage",
  "one-creator",
  "rules",
];

/* Returns the name of the first malformed value of an objection, or null. */
function findMalformedObjection(bundle, objection) {
  const { answer } = objection;
  const isTextOrNull = (value) => value === null || typeof value === "string";
  const validityByField = {
    seq: isCount(objection.seq),
    due_since: objection.due_since === bundle.proof.leaf?.kickout_due_since,
    node: objection.node === bundle.node,
    reason: OBJECTION_REASONS.includes(objection.reason),
    text: typeof objection.text === "string",
    contract: objection.contract === null || ADDRESS_FORMAT.test(objection.contract),
    signature: isTextOrNull(objection.signature),
    deadline: objection.signature === null || isCount(objection.deadline),
    answer:
      answer === null ||
      (typeof answer.is_accepted === "boolean" &&
        typeof answer.because === "string" &&
        isCount(answer.answered_at) &&
        isTextOrNull(answer.signer) &&
        isTextOrNull(answer.signature)),
  };
  return Object.keys(validityByField).find((name) => !validityByField[name]) ?? null;
}

function checkObjectionSignature(bundle, objection) {
  const name = `Objection ${objection.seq}`;
  if (objection.signature === null || objection.contract === null) {
    const text =
      "The bundle has no signature: the node called the contract itself, is a contract, or did not post the objection to this server. Its log is evidence for it.";
    return makeCheck(name, null, text, true);
  }
  const digest = computeDigest(
    OBJECTIONS_DOMAIN,
    bundle.signed_round.chain_id,
    objection.contract,
    OBJECTION_TYPE,
    [
      bundle.node,
      objection.due_since,
      OBJECTION_REASONS.indexOf(objection.reason),
      hashText(objection.text),
      objection.seq,
      objection.deadline,
    ],
  );
  const isSigned = recoverSigner(digest, objection.signature) === bundle.node;
  const text = isSigned
    ? "The key of the node signed the reason, the text and the kickout of the objection."
    : "The signature is not by the key of the node, or a signed value was changed.";
  return makeCheck(name, isSigned, text, true);
}

function checkAnswerSignature(bundle, objection) {
  const { answer, contract } = objection;
  const name = `Answer to objection ${objection.seq}`;
  if (answer.signature === null || contract === null) {
    return makeCheck(name, null, "The answer is not signed, so nothing but this server confirms it.", true);
  }
  const digest = computeDigest(
    OBJECTIONS_DOMAIN,
    bundle.signed_round.chain_id,
    contract,
    ANSWER_TYPE,
    [
      bundle.node,
      objection.due_since,
      Number(answer.is_accepted),
      hashText(answer.because),
      answer.answered_at,
    ],
  );
  const signer = recoverSigner(digest, answer.signature);
  if (signer === null || signer !== answer.signer) {
    const text = `The signature is not by ${answer.signer}, or a signed value was changed.`;
    return makeCheck(name, false, text, true);
  }
  const signers = bundle.signed_round.configuration?.signers ?? [];
  const verb = answer.is_accepted ? "accepted" : "declined";
  return signers.includes(signer)
    ? makeCheck(name, true, `The reporter ${signer} ${verb} the objection, and signed its reason.`, true)
    : makeCheck(name, null, `${signer} signed the answer, but is not among the signers of the round that the bundle names.`, true);
}

function checkObjections(bundle) {
  return bundle.objections.flatMap((objection) => {
    const malformedField = findMalformedObjection(bundle, objection);
    if (malformedField !== null) {
      return [makeCheck("Objections", false, `${malformedField} is missing, is malformed, or belongs to another kickout.`)];
    }
    const checks = [checkObjectionSignature(bundle, objection)];
    return objection.answer === null ? checks : [...checks, checkAnswerSignature(bundle, objection)];
  });
}
