"use strict";
/* The button "Draw again": fetches the inputs of a draw, repeats it with draw.js, shows each step. */

const SHARE_STEPS = 10_000n;

function makeElement(tag, text, className) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) {
    element.className = className;
  }
  return element;
}

function makeSteps(inputs, draw) {
  const list = document.createElement("ol");
  list.className = "hash";
  list.append(
    makeElement("li", `seed = sha256(block hash || ${inputs.seed_name}) = ${draw.seed}`),
    makeElement("li", `digest = sha256(seed || ${inputs.counter}) = ${draw.digest}`),
    makeElement("li", `sum of ${draw.rows.length} weights = ${draw.total}`),
    makeElement("li", `x = digest modulo the sum = ${draw.x}`),
  );
  return list;
}

function makeTable(draw) {
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const name of ["Candidate", "Weight", "Share", "Up to", ""]) {
    const cell = makeElement("th", name, name === "Candidate" || name === "" ? "" : "number");
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  let lowerBound = 0n;
  for (const row of draw.rows) {
    const share = Number(((row.upTo - lowerBound) * SHARE_STEPS) / draw.total) / 100;
    lowerBound = row.upTo;
    const link = makeElement("a", `${row.node.slice(0, 6)}…${row.node.slice(-4)}`, "hash");
    link.href = `/nodes/${row.node}`;
    const cells = body.insertRow();
    cells.insertCell().append(link);
    for (const text of [row.weight, `${share.toFixed(2)} %`, String(row.upTo)]) {
      cells.append(makeElement("td", text, "number"));
    }
    cells.append(makeElement("td", row.node === draw.node ? "◀ drawn" : "", "when"));
  }
  const scroll = makeElement("div", "", "scroll");
  scroll.append(table);
  return scroll;
}

function makeVerdict(inputs, draw) {
  const isEqual =
    draw.node === inputs.recorded && draw.node === inputs.node && draw.digest === inputs.digest;
  const text = isEqual
    ? `✓ Equal: this browser draws ${draw.node}, as the oracle did.`
    : `▲ Not equal: this browser draws ${draw.node}, the oracle recorded ${inputs.recorded}.`;
  return makeElement("p", text, isEqual ? "card calm" : "card waits");
}

async function fetchDrawInputs(path) {
  const response = await fetch(path);
  const content = await response.json();
  if (!response.ok) {
    throw new Error(content.detail);
  }
  return content;
}

async function onDrawClick(event) {
  const button = event.target.closest?.("[data-again]");
  if (!button) {
    return;
  }
  const container = document.getElementById(button.getAttribute("aria-controls"));
  button.disabled = true;
  try {
    const inputs = await fetchDrawInputs(button.dataset.again);
    const draw = repeatDraw(inputs);
    container.replaceChildren(
      makeVerdict(inputs, draw),
      makeSteps(inputs, draw),
      makeTable(draw),
    );
    if (inputs.gpu) {
      container.prepend(makeElement("p", `The GPU was drawn first: ${inputs.gpu}.`, "hint"));
    }
  } catch (error) {
    container.replaceChildren(makeElement("p", `The draw could not be repeated: ${error.message}`));
  }
  button.disabled = false;
}

document.addEventListener("click", onDrawClick);
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("[data-again]")) {
    button.hidden = false;
  }
});
