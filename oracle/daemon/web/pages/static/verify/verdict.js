"use strict";
/* Summarises the checks in one sentence. Does not use the document. */

/* The checks that a bundle and its server cannot pass alone: they compare it with what the reader
   entered, and with the chain. */
const ANCHOR_CHECKS = ["Oracle contract", "Endpoint", "Chain", "Root", "Acceptance", "Proof"];

function joinNames(checks) {
  return checks.map(({ name }) => name).join(", ");
}

/* Returns {state, headline, open}. `state` is

   - "wrong": a check failed;
   - "consistent": the bundle was compared only with itself, so everything in it may be invented;
   - "partial": the chain confirms the leaf, but checks are open;
   - "confirmed": no check is open that a score depends on.

   `open` are the names of the checks that compared nothing. */
function summarizeChecks(checks) {
  const wrong = checks.filter((check) => check.is_true === false);
  const open = checks.filter((check) => check.is_true === null);
  const hasPassed = (name) => checks.some((check) => check.name === name && check.is_true === true);
  const missing = open.filter((check) => !check.is_optional);
  const names = joinNames(open);
  if (wrong.length > 0) {
    const headline = `✗ ${wrong.length} of ${checks.length} checks failed: ${joinNames(wrong)}.`;
    return { state: "wrong", headline, open: names };
  }
  if (!ANCHOR_CHECKS.every(hasPassed)) {
    const headline = "○ The bundle is consistent with itself, but not yet checked against the chain. An invented bundle can look like this.";
    return { state: "consistent", headline, open: names };
  }
  if (missing.length > 0 || !hasPassed("All events")) {
    const headline = `○ The contract that you entered has this leaf, and nothing contradicts it. Still open: ${joinNames(missing)}.`;
    return { state: "partial", headline, open: names };
  }
  const headline = "✓ Confirmed: the contract that you entered has this leaf, and it follows from the events of your file by the rules of the contract.";
  return { state: "confirmed", headline, open: names };
}
