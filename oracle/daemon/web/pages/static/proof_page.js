"use strict";
/* The button "Check in the browser": fetches a proof, checks it with proof.js, shows each check. */

function makeElement(tag, text, className) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) {
    element.className = className;
  }
  return element;
}

function makeFacts(rows) {
  const list = document.createElement("dl");
  for (const [name, value] of rows) {
    const title = name.charAt(0).toUpperCase() + name.slice(1);
    list.append(makeElement("dt", title), makeElement("dd", value));
  }
  return list;
}

function makeChecks(checks) {
  const list = makeElement("ul", "", "plain");
  for (const check of checks) {
    const item = document.createElement("li");
    item.append(
      makeElement("b", `${check.is_true ? "✓" : "▲ Wrong:"} ${check.name}. `),
      check.text,
    );
    list.append(item);
  }
  return list;
}

function readExpected(form) {
  const { address, root, summary } = form.dataset;
  const enteredRoot = form.elements.root.value.trim().toLowerCase();
  return { address, ...JSON.parse(summary), root: root || null, other_root: enteredRoot || null };
}

/* Names the roots that were compared: a root of this server alone proves little. */
function describeComparison(expected) {
  const sources = [];
  if (expected.root !== null) {
    sources.push("the root that this server stores");
  }
  if (expected.other_root !== null) {
    sources.push("the root that you entered");
  }
  return sources.length > 0
    ? `Compared with ${sources.join(" and ")}.`
    : "This server stores no root of the round, so compare this root with the contract's.";
}

function makeVerdict(result, proof, expected, subject) {
  if (!result.is_true) {
    return makeElement(
      "p",
      "▲ False: the response proves nothing. The checks below show the reason.",
      "card waits",
    );
  }
  let fact = `the leaf of ${proof.address} is in the root of round ${expected.round}`;
  if (subject === "summary") {
    fact = `the summary is in the root of round ${expected.round}`;
  } else if (proof.is_absent) {
    fact = `${proof.address} has no leaf in round ${expected.round}, and therefore no score`;
  }
  return makeElement("p", `✓ True: ${fact}. ${describeComparison(expected)}`, "card calm");
}

function makeSteps(result, proof, expected, subject) {
  const steps = [makeElement("h3", "Checks"), makeChecks(result.checks)];
  if (result.is_true) {
    const title = `In round ${expected.round}, as of block ${expected.as_of}`;
    const isLeafShown = subject === "leaf" && !proof.is_absent;
    const rows = [
      ...(isLeafShown ? describeLeaf(result.leaf) : []),
      ...(subject === "summary" ? describeSummary(proof.summary) : []),
    ];
    if (rows.length > 0) {
      steps.unshift(makeElement("h3", title), makeFacts(rows));
    }
  }
  return steps;
}

async function fetchProof(path) {
  const response = await fetch(path);
  const answer = await response.json();
  if (!response.ok) {
    throw new Error(answer.detail);
  }
  return answer.proof;
}

async function onProofSubmit(event) {
  event.preventDefault();
  const form = event.target;
  const { subject } = form.dataset;
  const [button, verdict, steps] = ["button", ".verdict", ".steps"].map((name) =>
    form.querySelector(name),
  );
  const expected = readExpected(form);
  button.disabled = true;
  steps.replaceChildren();
  verdict.replaceChildren(makeElement("p", "Fetching the proof …", "hint"));
  try {
    const proof = await fetchProof(form.dataset.proof);
    const result = checkProof(proof, expected);
    verdict.replaceChildren(makeVerdict(result, proof, expected, subject));
    steps.replaceChildren(...makeSteps(result, proof, expected, subject));
  } catch (error) {
    verdict.replaceChildren(makeElement("p", `The proof could not be fetched: ${error.message}`));
  }
  button.disabled = false;
  button.focus();
}

document.addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll("form[data-proof]")) {
    form.hidden = false;
    form.addEventListener("submit", onProofSubmit);
  }
});
