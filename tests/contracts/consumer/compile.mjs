// node compile.mjs PROJECT FILE ...: compiles files of a project; what they import lies in its node_modules.
// Where OpenZeppelin is not there, the checkout's stands in for it. Prints the names of what was compiled.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const solc = createRequire(join(ROOT, "package.json"))("solc");
const [project, ...files] = process.argv.slice(2);

function read(path) {
  const found = [project, join(project, "node_modules"), join(ROOT, "node_modules")]
    .map((folder) => join(folder, path))
    .find((place) => existsSync(place));
  return found ? { contents: readFileSync(found, "utf8") } : { error: `${path} is not there` };
}

const input = {
  language: "Solidity",
  sources: Object.fromEntries(files.map((file) => [file, { content: read(file).contents }])),
  settings: { evmVersion: "shanghai", outputSelection: { "*": { "*": ["abi"] } } },
};
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read }));
const errors = (output.errors ?? []).filter((error) => error.severity === "error");
for (const error of errors) console.error(error.formattedMessage);
console.log(Object.values(output.contracts ?? {}).flatMap(Object.keys).join("\n"));
process.exitCode = errors.length ? 1 : 0;
