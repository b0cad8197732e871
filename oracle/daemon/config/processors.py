"""How many processors this process may use: a container's quota and an affinity count.

`os.cpu_count` is the machine's: in a container with half a processor it would start three workers
for nothing. See docs/explanation/segments.md#how-many-workers.
"""

import os
from math import ceil
from pathlib import Path

_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# What an unlimited group says instead of a quota, in version 2 and in version 1.
_UNLIMITED = ("max", "-1")


def usable_processors(groups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Return how many processors this process may use, one at least; a part counts as one.

    The least of its affinity (or `PYTHON_CPU_COUNT`, from Python 3.13 on) and of the quota of its
    control group and of every group above it. `groups` is where control groups are mounted, `own`
    names those of this process.
    """
    quotas = [ceil(quota) for quota in _quotas(groups, own)]
    return max(1, min([_affinity(), *quotas]))


def _affinity() -> int:
    """Return how many processors the scheduler gives this process."""
    process_cpu_count = getattr(os, "process_cpu_count", None)
    if process_cpu_count is not None:
        return int(process_cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(groups: Path, own: Path) -> list[float]:
    """Return the quotas of this process's groups, in processors; empty where there are none."""
    quotas = []
    for line in _text(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if not controllers:
            root, read = groups, _quota_of_version_2
        elif "cpu" in controllers.split(","):
            root, read = _root_of_version_1(groups, controllers), _quota_of_version_1
        else:
            continue
        quotas += [quota for folder in _folders(root, name) if (quota := read(folder)) is not None]
    return quotas


def _root_of_version_1(groups: Path, controllers: str) -> Path:
    """Return where the group of the processor's controller is mounted, under one of two names."""
    mounted = groups / controllers
    return mounted if mounted.is_dir() else groups / "cpu"


def _folders(root: Path, name: str) -> list[Path]:
    """Return the group's folder and those above it.

    Inside a container the group is often mounted as the root, whatever its name is outside.
    """
    parts = [part for part in name.split("/") if part not in ("", "..")]
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _quota_of_version_2(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").strip().partition(" ")
    return _share(quota, period)


def _quota_of_version_1(folder: Path) -> float | None:
    quota, period = (_text(folder / f"cpu.cfs_{part}_us") for part in ("quota", "period"))
    return _share(quota.strip(), period.strip())


def _share(quota: str, period: str) -> float | None:
    if quota in _UNLIMITED or not (quota.isdecimal() and period.isdecimal() and int(period)):
        return None
    return int(quota) / int(period)


def _text(path: Path) -> str:
    """Return what a file of the kernel says; nothing where there is none."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
