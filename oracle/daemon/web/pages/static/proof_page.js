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
  for (const [name, words] of rows) {
    const title = name.charAt(0).toUpperCase() + name.slice(1);
    list.append(makeElement("dt", title), makeElement("dd", words));
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
  const other = form.elements.root.value.trim().toLowerCase();
  return { address, ...JSON.parse(summary), root: root || null, other_root: other || null };
}

/* Says what was compared with what, because a root of this server alone proves little. */
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
    : "This server stores no root of the round, so compare this one with the contract's.";
}

function makeVerdict(result, proof, expected, shown) {
  if (!result.is_true) {
    return makeElement(
      "p",
      "▲ False: the response proves nothing. The checks below name what is wrong.",
      "card waits",
    );
  }
  let fact = `the leaf of ${proof.address} is in the root of round ${expected.round}`;
  if (shown === "summary") {
    fact = `the summary is in the root of round ${expected.round}`;
  } else if (proof.is_absent) {
    fact = `${proof.address} has no leaf in round ${expected.round}, and therefore no score`;
  }
  return makeElement("p", `✓ True: ${fact}. ${describeComparison(expected)}`, "card calm");
}

function makeSteps(result, proof, expected, shown) {
  const steps = [makeElement("h3", "Checks"), makeChecks(result.checks)];
  if (result.is_true) {
    const title = `In round ${expected.round}, as of block ${expected.as_of}`;
    const isLeafShown = shown === "leaf" && !proof.is_absent;
    const rows = [
      ...(isLeafShown ? describeLeaf(result.leaf) : []),
      ...(shown === "summary" ? describeSummary(proof.summary) : []),
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
  const { shown } = form.dataset;
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
    verdict.replaceChildren(makeVerdict(result, proof, expected, shown));
    steps.replaceChildren(...makeSteps(result, proof, expected, shown));
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
