// Writes the output that `forge build` would write for some contracts, with npm's solc, for Halmos and
// Slither.
//   node tests/contracts/audit/forge_output.mjs FOLDER [--code] SOURCE ...
// With --code: FOLDER/out/File.sol/Contract.json with the same code as in abi/. Otherwise only
// FOLDER/out/build-info, without code: syntax trees take a second, code takes half a minute.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
const NO_CODE = { object: "", sourceMap: "", linkReferences: {}, opcodes: "" };
const TREE = ["abi", "devdoc", "userdoc", "metadata", "evm.methodIdentifiers", "storageLayout"];
const CODE = ["evm.bytecode", "evm.deployedBytecode"];

const [folder, ...rest] = process.argv.slice(2);
const withCode = rest[0] === "--code";
const wanted = withCode ? rest.slice(1) : rest;
const solc = createRequire(join(ROOT, "package.json"))("solc");
const { settings } = JSON.parse(readFileSync(join(ROOT, "abi", "roots", "QoSRoots.json"), "utf8"));
const sources = {};

// As with forge, the input contains every source, including imported ones.
function read(path) {
  for (const place of [ROOT, join(ROOT, "node_modules")])
    try {
      const content = readFileSync(join(place, path), "utf8");
      sources[path] = { content };
      return { contents: content };
    } catch (error) {
      if (error.code !== "ENOENT") throw error;
    }
  return { error: `${path}: not found` };
}

function compiled() {
  const chosen = { "*": { "": ["ast"], "*": withCode ? [...TREE, ...CODE] : TREE } };
  const input = {
    language: "Solidity",
    sources: Object.fromEntries(wanted.map((path) => [path, { content: read(path).contents }])),
    settings: { ...settings, outputSelection: chosen },
  };
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }));
  const errors = (output.errors ?? []).filter((error) => error.severity === "error");
  for (const error of errors) console.error(error.formattedMessage);
  if (errors.length) process.exit(1);
  return { input: { ...input, sources }, output };
}

function write(path, value) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify(value));
}

function artifact(contract, source) {
  const { bytecode, deployedBytecode, methodIdentifiers } = contract.evm;
  const { abi, storageLayout } = contract;
  const hexed = (code) => ({ ...code, object: `0x${code.object}` });
  return {
    abi, storageLayout, methodIdentifiers, ast: source.ast, id: source.id,
    bytecode: hexed(bytecode), deployedBytecode: hexed(deployedBytecode),
    metadata: JSON.parse(contract.metadata || "{}"),
  };
}

const { input, output } = compiled();
for (const [path, contracts] of Object.entries(output.contracts))
  for (const [name, contract] of Object.entries(contracts)) {
    contract.evm.bytecode ??= NO_CODE;
    contract.evm.deployedBytecode ??= { ...NO_CODE, immutableReferences: {} };
    const file = join(folder, "out", basename(path), `${name}.json`);
    if (withCode) write(file, artifact(contract, output.sources[path]));
  }
const solcLongVersion = solc.version();
const solcVersion = solcLongVersion.split("+")[0];
const known = { id: "audit", _format: "hh-sol-build-info-1", solcVersion, solcLongVersion };
write(join(folder, "out", "build-info", "audit.json"), { ...known, input, output });
