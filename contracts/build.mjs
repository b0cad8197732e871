// Compiles the contracts with solc from npm and writes one artifact each under abi/.
//   node contracts/build.mjs [NAME ...]           write changed artifacts, of these contracts or of all
//   node contracts/build.mjs --check [NAME ...]   write nothing; exit 1 if an artifact is missing, stale or orphaned
//   node contracts/build.mjs --layout NAME        print its storage layout (tests/contracts/roots/layout.json)
//   node contracts/build.mjs --standard-json NAME print solc's input with all sources, for source verification
// With --warned, warnings are accepted: a mutant without a guard may leave a name unused (tests/mutants).
// Top-level contracts and those in adapters/, roots/, roots/consumers/ and testing/ get an artifact, as do
// OpenZeppelin's contracts that are deployed unchanged; other folders contain parts of contracts.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, posix, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCES = join(ROOT, "contracts");
const ARTIFACTS = join(ROOT, "abi");
const FOLDERS = ["", "testing", "adapters", "roots", "roots/consumers"];
const FROM_NPM = ["@openzeppelin/contracts/governance/TimelockController.sol"];

// bytecodeHash "none" keeps comments and paths out of the bytecode. Shanghai is the oldest rule set
// that all known chains support.
const SETTINGS = {
  evmVersion: "shanghai",
  metadata: { bytecodeHash: "none" },
  optimizer: { enabled: true, runs: 10000 },
  viaIR: true,
};

// The limit of a contract's code (EIP-170).
const MAX_CODE_BYTES = 24576;

// Optimizer runs by contract: with 10,000 runs, the code of these contracts would exceed the limit. The gas of a push is
// the same (docs/reference/contract.md).
const RUNS = { QoSRoots: 1500, TaskNetwork: 200 };

function settingsOf(path) {
  const runs = RUNS[basename(path, ".sol")] ?? SETTINGS.optimizer.runs;
  return { ...SETTINGS, optimizer: { ...SETTINGS.optimizer, runs } };
}

const OUTPUTS = [
  "abi",
  "evm.bytecode.object",
  "evm.deployedBytecode.object",
  "evm.deployedBytecode.immutableReferences",
];

const WARNED = process.argv.includes("--warned");
const solc = createRequire(join(ROOT, "package.json"))("solc");

function filesIn(folder, ending) {
  try {
    return readdirSync(folder).filter((name) => name.endsWith(ending)).sort();
  } catch (error) {
    if (error.code === "ENOENT") return [];
    throw error;
  }
}

// A path that begins with @ is in an npm package; solc names such sources by the package, wherever
// node_modules is.
function read(path) {
  try {
    return { contents: readFileSync(join(ROOT, path.startsWith("@") ? "node_modules" : "", path), "utf8") };
  } catch (error) {
    return { error: error.message };
  }
}

// Returns solc's input for one contract; sources that are not in `paths` are read when they are imported.
function standardInput(paths, path, outputs) {
  return {
    language: "Solidity",
    sources: Object.fromEntries(paths.map((source) => [source, { content: read(source).contents }])),
    settings: { ...settingsOf(path), outputSelection: { [path]: { "*": outputs } } },
  };
}

function runCompiler(input, readSource = read) {
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: readSource }));
  for (const error of output.errors ?? []) console.error(error.formattedMessage);
  return output;
}

// Returns the input with the contract's source and all that it imports, which block explorers compile to verify the
// source of a deployed contract.
function completeInput(path) {
  const paths = new Set([path]);
  runCompiler(standardInput([path], path, []), (source) => {
    paths.add(source);
    return read(source);
  });
  return standardInput([...paths].sort(), path, OUTPUTS);
}

// Each contract is compiled separately with its imports: in a common run, a contract's via-IR code may depend
// on the numbering of unrelated sources.
function compile(path, outputs) {
  const output = runCompiler(standardInput([path], path, outputs));
  const errors = (output.errors ?? []).filter((error) => !WARNED || error.severity === "error");
  if (errors.length) throw new Error(`${path}: solc reports errors or warnings`);
  const name = basename(path, ".sol");
  const contract = output.contracts[path][name];
  if (!contract) throw new Error(`${path}: contains no contract named ${name}`);
  return contract;
}

function compiled(path) {
  const contract = compile(path, OUTPUTS);
  return {
    contractName: basename(path, ".sol"),
    abi: contract.abi,
    bytecode: `0x${contract.evm.bytecode.object}`,
    deployedBytecode: `0x${contract.evm.deployedBytecode.object}`,
    immutableReferences: contract.evm.deployedBytecode.immutableReferences,
    compiler: `solc ${solc.version()}`,
    settings: settingsOf(path),
  };
}

// The source of every contract that has an artifact, by the artifact's path.
function sources() {
  const found = new Map();
  for (const folder of FOLDERS)
    for (const file of filesIn(join(SOURCES, folder), ".sol")) {
      const artifact = join(ARTIFACTS, folder, `${basename(file, ".sol")}.json`);
      found.set(artifact, posix.join("contracts", folder, file));
    }
  for (const path of FROM_NPM) found.set(join(ARTIFACTS, `${basename(path, ".sol")}.json`), path);
  return found;
}

// Returns the slot, offset and type of each variable, without solc's numbers of syntax tree nodes, which
// change with every line.
function layout(path) {
  const { storage, types } = compile(path, ["storageLayout"]).storageLayout;
  // Remove solc's number of the declaration, which changes with every source compiled before it.
  const plain = (name) => name.replace(/\)\d+(_|$)/g, ")");
  const members = ({ members: held }) => held?.map(({ label, slot, offset, type }) => [label, slot, offset, plain(type)]);
  return {
    variables: storage.map(({ label, slot, offset, type }) => [label, slot, offset, plain(type)]),
    structs: Object.fromEntries(
      Object.entries(types)
        .filter(([, type]) => type.members)
        .map(([name, type]) => [plain(name), members(type)]),
    ),
  };
}

const PRINTERS = { "--layout": layout, "--standard-json": completeInput };

function orphans(known) {
  return FOLDERS.flatMap((folder) =>
    filesIn(join(ARTIFACTS, folder), ".json")
      .map((file) => join(ARTIFACTS, folder, file))
      .filter((path) => !known.has(path))
      .map((path) => ({ path, what: "has no source" })),
  );
}

function difference(path, source) {
  const artifact = compiled(source);
  const size = (artifact.deployedBytecode.length - 2) / 2;
  if (size) console.error(`${artifact.contractName}: ${size.toLocaleString("en")} of ${MAX_CODE_BYTES.toLocaleString("en")} bytes`);
  const text = `${JSON.stringify(artifact, null, 2)}\n`;
  const old = read(relative(ROOT, path)).contents;
  if (old === text) return [];
  return [{ path, text, what: old === undefined ? "is missing" : "is stale" }];
}

function differences(names) {
  const known = sources();
  const wanted = [...known].filter(([, path]) => !names.length || names.includes(basename(path, ".sol")));
  const changed = wanted.flatMap(([path, source]) => difference(path, source));
  return names.length ? changed : [...orphans(known), ...changed];
}

function write({ path, text }) {
  if (text === undefined) return rmSync(path);
  mkdirSync(dirname(path), { recursive: true });
  return writeFileSync(path, text);
}

function main(args) {
  const check = args.includes("--check");
  const names = args.filter((arg) => !["--check", "--warned", ...Object.keys(PRINTERS)].includes(arg));
  const known = [...sources().values()].map((path) => basename(path, ".sol"));
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length) {
    console.error(`no contract ${unknown[0]}; usage: node contracts/build.mjs [--check] [--warned] [NAME ...]`);
    return 2;
  }
  const printed = Object.keys(PRINTERS).find((flag) => args.includes(flag));
  if (printed) {
    if (names.length !== 1) {
      console.error(`${printed}: needs the name of one contract`);
      return 2;
    }
    const path = [...sources().values()].find((source) => basename(source, ".sol") === names[0]);
    console.log(JSON.stringify(PRINTERS[printed](path), null, 1));
    return 0;
  }
  const found = differences(names);
  for (const one of found) {
    if (!check) write(one);
    console.log(`${relative(ROOT, one.path)} ${one.what}${check ? "" : ": done"}`);
  }
  if (!found.length) console.log("abi/ matches the sources");
  return check && found.length ? 1 : 0;
}

try {
  process.exitCode = main(process.argv.slice(2));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
