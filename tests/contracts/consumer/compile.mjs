// node compile.mjs PROJECT FILE ...: compiles files of a project; what they import lies in its node_modules.
// Where OpenZeppelin is not there, the checkout's stands in for it. Prints the names of what was compiled.
// node compile.mjs PROJECT --bytecode FILE ARTIFACT: compiles a file with an artifact's settings and prints its bytecode.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const solc = createRequire(join(ROOT, "package.json"))("solc");
const [project, ...rest] = process.argv.slice(2);
const bytecode = rest[0] === "--bytecode";
const files = bytecode ? rest.slice(1, 2) : rest;
const settings = bytecode ? JSON.parse(readFileSync(rest[2], "utf8")).settings : { evmVersion: "shanghai" };
const outputs = bytecode ? ["evm.bytecode.object"] : ["abi"];

function read(path) {
  const found = [project, join(project, "node_modules"), join(ROOT, "node_modules")]
    .map((folder) => join(folder, path))
    .find((place) => existsSync(place));
  return found ? { contents: readFileSync(found, "utf8") } : { error: `${path} is not there` };
}

const input = {
  language: "Solidity",
  sources: Object.fromEntries(files.map((file) => [file, { content: read(file).contents }])),
  settings: { ...settings, outputSelection: { "*": { "*": outputs } } },
};
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }));
const errors = (output.errors ?? []).filter((error) => error.severity === "error");
for (const error of errors) console.error(error.formattedMessage);
const contracts = output.contracts ?? {};
if (bytecode) console.log(`0x${contracts[files[0]]?.[basename(files[0], ".sol")]?.evm.bytecode.object}`);
else console.log(Object.values(contracts).flatMap(Object.keys).join("\n"));
process.exitCode = errors.length ? 1 : 0;
