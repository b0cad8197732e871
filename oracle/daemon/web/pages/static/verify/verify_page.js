"use strict";
/* The page `/verify`: reads a bundle, runs all checks, shows them. The page consists of one file, in
   which daemon/web/pages/verify_page.py puts all scripts. */

const SIGNS = new Map([
  [true, ["✓", "sign-true", "holds"]],
  [false, ["✗", "sign-false", "does not hold"]],
  [null, ["○", "sign-open", "not checked"]],
]);

/* The addresses that this page may contact, once the reader has named them. */
let allowedSources = null;

function getField(name) {
  return document.getElementById(name);
}

function makeNode(tag, text, className) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (className) {
    element.className = className;
  }
  return element;
}

function getOrigin(address, name) {
  try {
    const url = new URL(address);
    if (url.protocol === "https:" || url.protocol === "http:") {
      return url.origin;
    }
  } catch {
    /* The message below is the same. */
  }
  throw new Error(`${name}: expected an address with http:// or https://`);
}

/* Adds a policy by which the browser refuses every request to another address. A policy cannot be
   widened again, so a new address needs a new page. */
function restrictRequests(addresses) {
  const sources = addresses.join(" ") || "'none'";
  if (allowedSources === null) {
    const policy = document.createElement("meta");
    policy.httpEquiv = "Content-Security-Policy";
    policy.content = `connect-src ${sources}`;
    document.head.append(policy);
    allowedSources = sources;
  } else if (allowedSources !== sources) {
    throw new Error("this page may contact only the first addresses; reload it to use others");
  }
}

async function fetchBundle(api, node, round) {
  if (!/^0x[0-9a-fA-F]{1,40}$/.test(node)) {
    throw new Error("node: expected 0x and up to 40 hex digits");
  }
  const query = round === "" ? "" : `?round=${encodeURIComponent(round)}`;
  const path = `${api.replace(/\/+$/, "")}/v1/nodes/${node.toLowerCase()}/bundle${query}`;
  const response = await fetch(path);
  const answer = await response.json();
  if (!response.ok) {
    throw new Error(answer.detail);
  }
  const { bundle } = answer;
  const isRequested =
    bundle.node.startsWith(node.toLowerCase()) &&
    (round === "" || String(bundle.signed_round.round) === round);
  if (!isRequested) {
    throw new Error("the server returned the bundle of another node or round");
  }
  return bundle;
}

function parseLines(text) {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line));
}

async function readFiles(files) {
  const inputs = { bundle: null, events: null };
  for (const file of files) {
    const text = await file.text();
    if (file.name.endsWith(".jsonl")) {
      inputs.events = parseLines(text);
    } else {
      const content = JSON.parse(text);
      inputs.bundle = content.bundle ?? content;
    }
  }
  return inputs;
}

function readAddresses(usesApi) {
  const [api, rpc] = ["api", "rpc"].map((name) => getField(name).value.trim());
  const origins = [];
  if (usesApi) {
    origins.push(getOrigin(api, "API address"));
  }
  if (rpc !== "") {
    origins.push(getOrigin(rpc, "RPC endpoint"));
  }
  return { api, rpc, origins };
}

function showProgress(text) {
  getField("verdict").replaceChildren(makeNode("p", text, "hint"));
}

function describeSubject(bundle) {
  const { signed_round: round } = bundle;
  return `Node ${bundle.node} in round ${round.round}, as of block ${round.as_of} of chain ${round.chain_id}.`;
}

function showResult(bundle, checks, milliseconds) {
  const wrong = checks.filter((check) => check.is_true === false).length;
  const open = checks.filter((check) => check.is_true === null).map((check) => check.name);
  const headline =
    wrong === 0
      ? "✓ Everything that could be checked here holds."
      : `✗ ${wrong} of ${checks.length} checks do not hold.`;
  getField("verdict").replaceChildren(
    makeNode("p", headline, wrong === 0 ? "card calm" : "card waits"),
    makeNode("p", describeSubject(bundle)),
    makeNode("p", `Not checked: ${open.join(", ") || "nothing"}.`),
    makeNode("p", `Computed in ${Math.round(milliseconds)} ms.`, "hint"),
  );
  const list = makeNode("ul", "", "checks");
  for (const check of checks) {
    const [sign, className, meaning] = SIGNS.get(check.is_true);
    const item = makeNode("li", "");
    const mark = makeNode("span", sign, className);
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", meaning);
    item.append(mark, makeNode("b", check.name), makeNode("small", check.text));
    list.append(item);
  }
  getField("checks").replaceChildren(list);
}

/* Values of a bundle that the page itself reads. */
function requireBundle(bundle) {
  const round = bundle?.signed_round;
  if (typeof bundle?.node !== "string" || round === undefined || bundle.proof === undefined) {
    throw new Error("the file is no evidence bundle");
  }
  return bundle;
}

async function checkInputs() {
  const inputs = await readFiles(getField("files").files);
  const { api, rpc, origins } = readAddresses(inputs.bundle === null);
  restrictRequests(origins);
  showProgress("Loading the bundle …");
  const bundle = requireBundle(
    inputs.bundle ??
      (await fetchBundle(api, getField("node").value.trim(), getField("round").value.trim())),
  );
  const start = performance.now();
  const checks = checkBundle(bundle, inputs.events);
  const milliseconds = performance.now() - start;
  if (rpc === "") {
    checks.push(makeCheck("Chain", null, "No RPC endpoint was given."));
  } else {
    const onProgress = (number, count) => showProgress(`Reading block ${number} of ${count} …`);
    checks.push(...(await checkOnChain(bundle, makeRpcClient(rpc), onProgress)));
  }
  showResult(bundle, checks, milliseconds);
}

async function onInputsSubmit(event) {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  getField("checks").replaceChildren();
  try {
    await checkInputs();
  } catch (error) {
    getField("verdict").replaceChildren(
      makeNode("p", `▲ The check could not be made: ${error.message}.`, "card waits"),
    );
  }
  button.disabled = false;
}

function fillInputs() {
  const query = new URLSearchParams(location.search);
  if (location.protocol.startsWith("http")) {
    getField("api").value = location.origin;
  }
  getField("node").value = query.get("node") ?? "";
  getField("round").value = query.get("round") ?? "";
}

fillInputs();
getField("inputs").addEventListener("submit", onInputsSubmit);
