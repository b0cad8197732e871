// node compile.mjs PROJECT FILE ...: compiles files of a project, whose imports are in its node_modules. If
// OpenZeppelin is missing there, the checkout's copy is used. Prints the names of the compiled contracts.
// node compile.mjs PROJECT --build FILE ...: prints the ABI and the bytecode of each contract of these files,
// by name.
// node compile.mjs PROJECT --bytecode FILE ARTIFACT: compiles a file with an artifact's settings and prints its
// bytecode.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const solc = createRequire(join(ROOT, "package.json"))("solc");
// Settings of a third-party project: unlike in contracts/build.mjs, the code is not compiled via Yul.
const SETTINGS = { evmVersion: "shanghai", optimizer: { enabled: true, runs: 200 } };
const [project, ...rest] = process.argv.slice(2);
const mode = rest[0].startsWith("--") ? rest.shift() : "";
const files = mode === "--bytecode" ? rest.slice(0, 1) : rest;
const settings = mode === "--bytecode" ? JSON.parse(readFileSync(rest[1], "utf8")).settings : SETTINGS;

function read(path) {
  const found = [project, join(project, "node_modules"), join(ROOT, "node_modules")]
    .map((folder) => join(folder, path))
    .find((place) => existsSync(place));
  return found ? { contents: readFileSync(found, "utf8") } : { error: `${path} is not there` };
}

const input = {
  language: "Solidity",
  sources: Object.fromEntries(files.map((file) => [file, { content: read(file).contents }])),
  settings: { ...settings, outputSelection: { "*": { "*": mode ? ["abi", "evm.bytecode.object"] : ["abi"] } } },
};
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }));
const errors = (output.errors ?? []).filter((error) => error.severity === "error");
for (const error of errors) console.error(error.formattedMessage);
const contracts = output.contracts ?? {};
const built = files.flatMap((file) => Object.entries(contracts[file] ?? {}));
if (mode === "--bytecode") console.log(`0x${contracts[files[0]]?.[basename(files[0], ".sol")]?.evm.bytecode.object}`);
else if (mode === "--build") {
  const asArtifact = ([name, { abi, evm }]) => [name, { abi, bytecode: `0x${evm.bytecode.object}` }];
  console.log(JSON.stringify(Object.fromEntries(built.map(asArtifact))));
} else console.log(Object.values(contracts).flatMap(Object.keys).join("\n"));
process.exitCode = errors.length ? 1 : 0;
