// node compile_input.mjs FILE: compiles a standard JSON input from the file alone, as a block explorer does,
// and prints solc's output.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const solc = createRequire(join(ROOT, "package.json"))("solc");

console.log(solc.compile(readFileSync(process.argv[2], "utf8")));
