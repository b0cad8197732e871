"use strict";
/* The page `/verify`: reads a bundle, runs all checks, shows them. The page consists of one file, in
   which daemon/web/pages/verify_page.py puts all scripts. */

const SIGNS = new Map([
  [true, ["✓", "sign-true", "passed"]],
  [false, ["✗", "sign-false", "failed"]],
  [null, ["○", "sign-open", "not checked"]],
]);

const VERDICT_CLASSES = {
  confirmed: "card calm",
  partial: "card open",
  consistent: "card open",
  wrong: "card false",
};

/* The addresses that this page may contact, once the reader has named them. */
let allowedSources = null;
/* The round that the link to this page names, until the reader changes the field. */
let linkedRound = null;

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
    /* The error below covers this case. */
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
  if (node === "") {
    throw new Error("node: enter its address, or choose a file");
  }
  const query = round === null ? "" : `?round=${round}`;
  const path = `${api.replace(/\/+$/, "")}/v1/nodes/${node}/bundle${query}`;
  const response = await fetch(path);
  const answer = await response.json();
  if (!response.ok) {
    throw new Error(String(answer.detail));
  }
  return answer.bundle;
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

function splitList(text) {
  return text.split(/[\s,]+/).filter(Boolean);
}

function readAddresses(usesApi) {
  const api = getField("api").value.trim();
  const endpoints = splitList(getField("rpc").value);
  const origins = [];
  if (usesApi) {
    origins.push(getOrigin(api, "API address"));
  }
  origins.push(...endpoints.map((url) => getOrigin(url, "RPC endpoint")));
  return { api, endpoints, origins };
}

function showProgress(text) {
  getField("verdict").replaceChildren(makeNode("p", text, "hint"));
}

function describeAge(seconds) {
  const [size, unit] = [
    [86400, "days"],
    [3600, "hours"],
    [60, "minutes"],
  ].find(([length]) => seconds >= 2 * length) ?? [1, "seconds"];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}

function describeSubject(bundle) {
  const { signed_round: round } = bundle;
  const time = round.as_of_time;
  const age =
    time === null
      ? ""
      : ` (${formatProofTime(time)}, ${describeAge(Math.max(0, Date.now() / 1000 - time))})`;
  return `Node ${bundle.node} in round ${round.round}, as of block ${round.as_of}${age} of chain ${round.chain_id}.`;
}

/* Returns the score that the leaf states, in words. */
function describeScore(bundle) {
  if (bundle.proof.is_absent === true) {
    return "The address has no leaf, so it has no score.";
  }
  try {
    const values = describeLeaf(decodeLeaf(bundle.proof.leaf.encoded));
    return `The leaf states: ${values.map(([name, value]) => `${name} ${value}`).join("; ")}.`;
  } catch {
    return "The leaf cannot be read.";
  }
}

function showVerdict(bundle, checks, milliseconds) {
  const { state, headline, open } = summarizeChecks(checks);
  const lines = [
    makeNode("p", headline, VERDICT_CLASSES[state]),
    makeNode("p", `Not checked: ${open || "nothing"}.`),
    makeNode("p", `Computed in ${Math.round(milliseconds)} ms.`, "hint"),
  ];
  if (findMalformedValue(bundle) === null) {
    lines.splice(1, 0, makeNode("p", describeSubject(bundle)), makeNode("p", describeScore(bundle)));
  }
  if (location.protocol.startsWith("http")) {
    const text = `This page was loaded from ${location.origin}, which could have changed it. To rule that out, use verify.html from a release.`;
    lines.push(makeNode("p", text, "hint"));
  }
  getField("verdict").replaceChildren(...lines);
}

function showChecks(checks) {
  const list = makeNode("ul", "", "checks");
  /* Failed checks come first, then open ones. */
  const order = [false, null, true];
  const sorted = order.flatMap((state) => checks.filter((check) => check.is_true === state));
  for (const check of sorted) {
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

/* Throws if the bundle is of another node or round than the reader entered. */
function requireBundle(bundle, node, round) {
  const signed = bundle?.signed_round;
  if (typeof bundle?.node !== "string" || !signed || !bundle.proof) {
    throw new Error("the file is not an evidence bundle");
  }
  if (!bundle.node.startsWith(node) || (round !== null && signed.round !== round)) {
    throw new Error("the bundle belongs to another node or round than you entered");
  }
  return bundle;
}

/* Returns what the reader entered, in the form that checks compare; an empty field is null. */
function readAnchor() {
  const nodeText = getField("node").value.trim();
  if (!/^(0x[0-9a-f]{1,40})?$/i.test(nodeText)) {
    throw new Error("node: expected 0x and up to 40 hex digits");
  }
  const node = ADDRESS_FORMAT.test(nodeText.toLowerCase()) ? parseAddress(nodeText) : nodeText.toLowerCase();
  const contracts = readAddressList("network-contracts");
  const [contract = null, ...others] = readAddressList("contract");
  if (others.length > 0) {
    throw new Error("oracle contract: expected one address");
  }
  const round = readNumber("round", "round");
  return {
    node,
    round,
    /* A link may have filled in an old round, in which the score was another. */
    chosen_round: String(round) === linkedRound ? null : round,
    contract,
    chain_id: readNumber("chain", "chain id"),
    network_contracts: contracts,
  };
}

function readNumber(name, title) {
  const text = getField(name).value.trim();
  if (!/^\d{0,15}$/.test(text)) {
    throw new Error(`${title}: expected a number`);
  }
  return text === "" ? null : Number(text);
}

function readAddressList(name) {
  return splitList(getField(name).value).map(parseAddress);
}

/* Returns an address in lower case; throws if its upper and lower case is not that of EIP-55. */
function parseAddress(text) {
  const address = text.toLowerCase();
  if (!ADDRESS_FORMAT.test(address)) {
    throw new Error(`${text}: expected an address of 0x and 40 hex digits`);
  }
  const digits = text.slice(2);
  const isMixed = /[a-f]/.test(digits) && /[A-F]/.test(digits);
  if (isMixed && digits !== addChecksum(address.slice(2))) {
    throw new Error(`${text}: wrong checksum; copy the address again, or enter it in lower case`);
  }
  return address;
}

function addChecksum(digits) {
  const hash = keccak256(new TextEncoder().encode(digits));
  return [...digits]
    .map((digit, i) => (Number.parseInt(hash[i], 16) >= 8 ? digit.toUpperCase() : digit))
    .join("");
}

/* The origins that the server of the bundle has: the chain must not be read from there. */
function listServerOrigins(api) {
  const page = location.protocol.startsWith("http") ? [location.origin] : [];
  try {
    return [...page, new URL(api).origin];
  } catch {
    return page;
  }
}

async function checkChain(bundle, anchor, api, endpoints) {
  if (endpoints.length === 0) {
    return [makeCheck("Endpoint", null, "No RPC endpoint was given, so the bundle was not compared with the chain.")];
  }
  const onProgress = (number, count) => showProgress(`Reading block ${number} of ${count} …`);
  return [
    checkEndpoints(endpoints, listServerOrigins(api)),
    ...(await checkOnChain(bundle, anchor, makeComparingClient(endpoints), onProgress)),
  ];
}

async function checkInputs() {
  const anchor = readAnchor();
  const inputs = await readFiles(getField("files").files);
  const { api, endpoints, origins } = readAddresses(inputs.bundle === null);
  restrictRequests(origins);
  showProgress("Loading the bundle …");
  const loaded = inputs.bundle ?? (await fetchBundle(api, anchor.node, anchor.round));
  const bundle = requireBundle(loaded, anchor.node, anchor.round);
  const start = performance.now();
  const checks = checkBundle(bundle, inputs.events);
  const milliseconds = performance.now() - start;
  checks.unshift(...checkEntered(bundle, anchor));
  checks.push(...(await checkChain(bundle, anchor, api, endpoints)));
  showVerdict(bundle, checks, milliseconds);
  showChecks(checks);
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
      makeNode("p", `▲ The check failed to run: ${error.message}.`, "card false"),
    );
  }
  button.disabled = false;
}

function fillInputs() {
  const query = new URLSearchParams(location.search);
  linkedRound = query.get("round");
  if (location.protocol.startsWith("http")) {
    getField("api").value = location.origin;
  }
  getField("node").value = query.get("node") ?? "";
  getField("round").value = query.get("round") ?? "";
}

fillInputs();
getField("round").addEventListener("input", () => {
  linkedRound = null;
});
getField("inputs").addEventListener("submit", onInputsSubmit);
