"""The measures of the codebase: sizes, duplicates, and dangling references."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SHORT_LINES = 40
LONG_PAGE_BYTES = 20 * 1024
# Packages of the product's HTTP servers and of signers, which are not endpoints of a chain.
_OTHER_PROTOCOLS = {"demo", "fakechain", "devnet", "signing", "signers"}
_READS_TEXT = ("startswith", "endswith")
# Modules in which only the text identifies an error: a library's generic error, a vendor's
# message.
_FOREIGN_TEXT = {"store/failures.py", "publisher/keys.py", "signing/keystore.py"}
_CITED = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-]+\.md\b")
_NUMBERED = re.compile(r"\b[Dd]ecision \d{1,2}\b")


@dataclass(frozen=True)
class Source:
    """A module of the product; `name` is its path below `oracle/`."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Return the syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def imported(self) -> list[str]:
        """Return the dotted names of all imports in the file."""
        names = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        return names

    @property
    def room(self) -> str:
        return self.name.partition("/")[0]

    @property
    def module(self) -> str:
        dotted = self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return f"oracle.{dotted}"


class Codebase:
    """A source tree and its modules, each read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        top = root / "oracle"
        self.sources = [
            Source(path.relative_to(top).as_posix(), path.read_text("utf-8"))
            for path in sorted(top.rglob("*.py"))
        ]

    def where(self, is_one: Callable[[Source], bool]) -> list[str]:
        """Return the names of the sources for which the predicate is true."""
        return [source.name for source in self.sources if is_one(source)]


def find_largest_folder(house: Codebase) -> str:
    """Return the folder with the most files of its own, and the number of these files."""
    (folder, many), *_ = Counter(
        source.name.rpartition("/")[0] for source in house.sources
    ).most_common(1)
    return f"{many} ({folder or '.'})"


def find_largest_package(house: Codebase) -> str:
    """Return the package with the most files, including sub-folders, and the number of files."""
    (room, many), *_ = Counter(source.room for source in house.sources).most_common(1)
    return f"{many} ({room})"


def find_most_connected_package(house: Codebase) -> str:
    """Return the package whose files import each other most."""
    modules = {source.module: source for source in house.sources}
    arrows: Counter[str] = Counter()
    for source in house.sources:
        reached = {modules[name].module for name in source.imported if name in modules}
        arrows[source.room] += sum(modules[name].room == source.room for name in reached)
    (room, many), *_ = arrows.most_common(1)
    return f"{many} ({room})"


def rpc_stacks(house: Codebase) -> list[str]:
    """Return the modules that write JSON-RPC requests for a chain's endpoint."""
    return house.where(
        lambda source: (
            _OTHER_PROTOCOLS.isdisjoint(source.name.split("/")) and any(_requests(source.tree))
        )
    )


def _requests(tree: ast.Module) -> Iterator[ast.Dict]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if {"jsonrpc", "method", "id"} <= keys:
                yield node


def pipelines(house: Codebase) -> list[str]:
    """Return the modules that assign nonces to transactions."""
    return house.where(lambda source: source.room != "store" and ".allocate_nonce(" in source.text)


def abi_readers(house: Codebase) -> list[str]:
    """Return the modules that decode ABI: with our own decoder, web3's contracts, or eth_abi."""
    own_decoders = house.where(
        lambda source: source.name.endswith(("/decode.py", "/log_decoder.py"))
    )
    by_hand = house.where(
        lambda source: any(
            name in {"eth_abi.decode", "eth_abi.abi.decode"} for name in source.imported
        )
    )
    web3 = ["web3"] if web3_importers(house) else []
    return own_decoders + by_hand + web3


def find_sql_text_modules(house: Codebase) -> list[str]:
    """Return the modules that call the built-in functions `exec` or `eval`."""
    return house.where(
        lambda source: any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"exec", "eval"}
            for node in ast.walk(source.tree)
        )
    )


def web3_importers(house: Codebase) -> list[str]:
    """Return the modules that import web3."""
    return house.where(
        lambda source: any(name.partition(".")[0] == "web3" for name in source.imported)
    )


def doubled_names(house: Codebase) -> list[str]:
    """Return the public class names that are defined more than once."""
    places = defaultdict(list)
    for source in house.sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(source.name)
    return sorted(name for name, where in places.items() if len(where) > 1)


def control_by_text(house: Codebase) -> list[str]:
    """Return the places that decide by an error's text, its `words` or a journal's `detail`."""
    return [
        f"{source.name}:{node.lineno}"
        for source in house.sources
        if source.name not in _FOREIGN_TEXT
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Compare | ast.Call) and _asks_words(node)
    ]


def _asks_words(node: ast.Compare | ast.Call) -> bool:
    if isinstance(node, ast.Compare):
        is_in = isinstance(node.ops[0], ast.In | ast.NotIn)
        return is_in and _is_text(node.left) and _is_of_an_error(node.comparators[0])
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in _READS_TEXT
        and _is_of_an_error(node.func.value)
    )


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_of_an_error(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in {"words", "detail"}
    if isinstance(node, ast.Name):
        return node.id == "words"
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "str"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id in {"error", "refusal", "fault"}
    )


def short_files(house: Codebase) -> list[str]:
    """Return the files of less than forty lines, except for those that only define a package."""
    return house.where(
        lambda source: (
            not source.name.endswith("__init__.py") and len(source.text.splitlines()) < SHORT_LINES
        )
    )


def dangling_citations(house: Codebase) -> list[str]:
    """Return the citations of pages that do not exist, and of decisions without a page."""
    dangling = []
    folders = ("oracle", "devnet", "lab", "gateway", "migrations", "contracts")
    for path in (path for name in folders for path in sorted((house.root / name).rglob("*.*"))):
        if path.suffix not in {".py", ".sol", ".toml", ".md"} or "node_modules" in path.parts:
            continue
        text = path.read_text("utf-8")
        cited = [name for name in _CITED.findall(text) if not _is_there(house.root, path, name)]
        place = path.relative_to(house.root).as_posix()
        dangling += [f"{place}: {name}" for name in cited + _NUMBERED.findall(text)]
    return dangling


def _is_there(root: Path, path: Path, name: str) -> bool:
    return any((folder / name).exists() for folder in (root, path.parent))


def mutants(house: Codebase) -> list[str]:
    """Return the patches that remove a defence."""
    return [path.stem for path in sorted((house.root / "tests" / "mutants").glob("*.patch"))]


def arrows_left(house: Codebase) -> list[str]:
    """Return the imports that import-linter is configured to ignore."""
    text = (house.root / "pyproject.toml").read_text("utf-8")
    return sorted(set(re.findall(r'"(oracle\.\S+ -> oracle\.\S+)"', text)))


def _pages(house: Codebase) -> dict[str, int]:
    docs = house.root / "docs"
    return {
        path.relative_to(docs).as_posix(): path.stat().st_size
        for path in docs.rglob("*.md")
        if "decisions" not in path.relative_to(docs).parts
    }


def largest_page(house: Codebase) -> str:
    """Return the longest page of the documentation, except for decisions."""
    sizes = _pages(house)
    name = max(sizes, key=lambda page: sizes[page])
    return f"{sizes[name] // 1024} KB ({name})"


def long_pages(house: Codebase) -> list[str]:
    """Return the pages above 20 KB."""
    return sorted(name for name, size in _pages(house).items() if size > LONG_PAGE_BYTES)


def all_pages(house: Codebase) -> str:
    """Return the total size of the hand-written pages, except for decisions."""
    return f"{sum(_pages(house).values()) // 1000} KB in {len(_pages(house))} pages"


def test_files(house: Codebase) -> str:
    """Return the size of the tests, and their folder with the most files."""
    top = house.root / "tests"
    paths = list(top.rglob("*.py"))
    (folder, many), *_ = Counter(path.parent for path in paths).most_common(1)
    return f"{len(paths)} ({many} in {folder.relative_to(house.root).as_posix()})"
