"use strict";
/* Reads cases, one JSON object a line, and prints the answer of the second implementation to each.
   The arguments are its scripts, which run as a page runs them: without anything of Node's own. */

const { readFileSync } = require("node:fs");
const vm = require("node:vm");

const page = {};
page.window = page;
vm.createContext(page);
for (const path of process.argv.slice(2)) {
  vm.runInContext(readFileSync(path, "utf8"), page, { filename: path });
}
const answerCase = vm.runInContext(
  `(text) => {
    const given = JSON.parse(text);
    const fold = new Fold(parseRules(given.rules)).apply(given.events);
    const policy = { holds_kickouts: given.holds_kickouts, undecoded: [] };
    const leaves = buildLeaves(fold, given.time, policy);
    const { root } = computeRound(leaves, given.round);
    return JSON.stringify({ ...fold.describe(given.time), root });
  }`,
  page,
);
for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  console.log(answerCase(line));
}
