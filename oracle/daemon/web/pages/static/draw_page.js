"use strict";
/* The button "Draw again": fetches the inputs of a draw, repeats it with draw.js, shows each step. */

const SHARE_STEPS = 10_000n;

function line(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) {
    made.className = className;
  }
  return made;
}

function steps(told, found) {
  const list = document.createElement("ol");
  list.className = "hash";
  list.append(
    line("li", `seed = sha256(block hash || ${told.seed_name}) = ${found.seed}`),
    line("li", `digest = sha256(seed || ${told.counter}) = ${found.digest}`),
    line("li", `sum of ${found.rows.length} weights = ${found.total}`),
    line("li", `x = digest modulo the sum = ${found.x}`),
  );
  return list;
}

function table(found) {
  const made = document.createElement("table");
  const head = made.createTHead().insertRow();
  for (const name of ["Candidate", "Weight", "Share", "Up to", ""]) {
    const cell = line("th", name, name === "Candidate" || name === "" ? "" : "number");
    cell.scope = "col";
    head.append(cell);
  }
  const body = made.createTBody();
  let before = 0n;
  for (const row of found.rows) {
    const share = Number(((row.upTo - before) * SHARE_STEPS) / found.total) / 100;
    before = row.upTo;
    const link = line("a", `${row.node.slice(0, 6)}…${row.node.slice(-4)}`, "hash");
    link.href = `/nodes/${row.node}`;
    const cells = body.insertRow();
    cells.insertCell().append(link);
    for (const text of [row.weight, `${share.toFixed(2)} %`, String(row.upTo)]) {
      cells.append(line("td", text, "number"));
    }
    cells.append(line("td", row.node === found.node ? "◀ drawn" : "", "when"));
  }
  const scroll = line("div", "", "scroll");
  scroll.append(made);
  return scroll;
}

function verdict(told, found) {
  const isEqual =
    found.node === told.recorded && found.node === told.node && found.digest === told.digest;
  const words = isEqual
    ? `✓ Equal: this browser draws ${found.node}, as the oracle did.`
    : `▲ Not equal: this browser draws ${found.node}, the oracle recorded ${told.recorded}.`;
  return line("p", words, isEqual ? "card calm" : "card waits");
}

async function answered(path) {
  const answer = await fetch(path);
  const told = await answer.json();
  if (!answer.ok) {
    throw new Error(told.detail);
  }
  return told;
}

async function onClick(event) {
  const button = event.target.closest?.("[data-again]");
  if (!button) {
    return;
  }
  const place = document.getElementById(button.getAttribute("aria-controls"));
  button.disabled = true;
  try {
    const told = await answered(button.dataset.again);
    const found = drawnAgain(told);
    place.replaceChildren(verdict(told, found), steps(told, found), table(found));
    if (told.card) {
      place.prepend(line("p", `The GPU was drawn first: ${told.card}.`, "hint"));
    }
  } catch (error) {
    place.replaceChildren(line("p", `The draw could not be repeated: ${error.message}`));
  }
  button.disabled = false;
}

document.addEventListener("click", onClick);
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("[data-again]")) {
    button.hidden = false;
  }
});
