"""Runs the scripts of the page `/verify` in Node.js, in a context like that of a browser."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from oracle.daemon.web.pages.page_frame import STATIC
from oracle.daemon.web.pages.verify_page import SCRIPTS, build_profile_script

_NODE = shutil.which("node") or ""
needs_node = pytest.mark.skipif(not _NODE, reason="node runs the scripts")
# The context has a window and `fetch`, but no modules and no globals of Node.js.
_RUNNER = """
const { readFileSync } = require("node:fs");
const vm = require("node:vm");
const [profiles, script, ...paths] = process.argv.slice(1);
const page = { input: readFileSync(0, "utf8"), TextEncoder, URL, fetch };
page.window = page;
vm.createContext(page);
for (const text of [...paths.map((path) => readFileSync(path, "utf8")), profiles]) {
  vm.runInContext(text, page);
}
vm.runInContext(
  `(async () => JSON.stringify(await (${script})(JSON.parse(input))))()`, page,
).then(console.log);
"""


def run_page_script(script: str, content: object) -> Any:
    """Return what a JavaScript function, which may be async, returns for `content`, as JSON.

    The function can call everything that the page contains, but nothing that needs a document.
    """
    paths = [str(STATIC / name) for name in SCRIPTS if name != "verify/verify_page.js"]
    completed = subprocess.run(
        [_NODE, "-e", _RUNNER, build_profile_script(), script, *paths],
        input=json.dumps(content),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(completed.stdout)
