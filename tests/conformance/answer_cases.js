"use strict";
/* Reads cases, one JSON object a line, and prints the answer of the second implementation to each.
   The arguments are its scripts, which run in an empty context, as in a browser, without the globals of Node.js. */

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
    const inputs = JSON.parse(text);
    const fold = new Fold(parseRules(inputs.rules)).apply(inputs.events);
    const policy = { holds_kickouts: inputs.holds_kickouts, undecoded: [] };
    const leaves = buildLeaves(fold, inputs.time, policy);
    const { root } = computeRound(leaves, inputs.round);
    return JSON.stringify({ ...fold.describe(inputs.time), root });
  }`,
  page,
);
for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  console.log(answerCase(line));
}
