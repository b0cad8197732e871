"""A MkDocs hook that draws Mermaid diagrams without requests to another host.

The theme would load Mermaid from a public CDN. Instead, the build downloads one version from npm,
verifies its digest, and serves it with the site. Only pages with a diagram load it.
"""

import shutil
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

# Change version and digest together. `npm view mermaid version` prints the newest version. If the
# digest is wrong, the build reports the right one.
MERMAID_VERSION = "11.17.2"
MERMAID_SHA256 = "581ed7d74bd9048d0e3a91363927d72ef22942d7722546b27f7cc29e35390eb8"
SCRIPT = Path(__file__).resolve().parents[2] / "build/mermaid.min.js"
URL = "assets/javascripts/mermaid.min.js"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the Mermaid script to the site, after downloading it if necessary.

    It is downloaded if it is missing or outdated.
    """
    if not SCRIPT.is_file() or _hash_script() != MERMAID_SHA256:
        _download_script()
    files.append(File.generated(config, URL, abs_src_path=str(SCRIPT)))
    return files


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Load the Mermaid script in each page with a diagram."""
    if 'class="mermaid"' not in html:
        return html
    return f'{html}\n<script src="{get_relative_url(URL, page.url)}"></script>\n'


def _download_script() -> None:
    """Download the npm package, and write its script to `build/`.

    Raises:
        PluginError: the script is missing, or its digest differs from the expected one.
    """
    SCRIPT.parent.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"mermaid@{MERMAID_VERSION}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - a pinned version
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as package:
            source = package.extractfile("package/dist/mermaid.min.js")
            if source is None:
                raise PluginError(f"mermaid {MERMAID_VERSION}: dist/mermaid.min.js is missing")
            with source, SCRIPT.open("wb") as target:
                shutil.copyfileobj(source, target)
    if _hash_script() != MERMAID_SHA256:
        raise PluginError(
            f"mermaid {MERMAID_VERSION}: the script's digest is {_hash_script()}; "
            f"expected {MERMAID_SHA256}"
        )


def _hash_script() -> str:
    return sha256(SCRIPT.read_bytes()).hexdigest()
