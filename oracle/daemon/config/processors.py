"""The number of processors that this process may use, by its container quota and affinity.

`os.cpu_count` returns the machine's number: in a container with half a processor, three workers
would start for nothing. See docs/explanation/segments.md#how-many-workers.
"""

import os
from math import ceil
from pathlib import Path

_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# The quota of an unlimited group, in cgroup versions 2 and 1.
_UNLIMITED = ("max", "-1")


def usable_processors(groups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """Return how many processors this process may use, at least one; a fraction counts as one.

    The result is the minimum of the affinity (or `PYTHON_CPU_COUNT`, from Python 3.13 on) and of
    the quotas of its control group and every group above. `cgroup_root` is the mount point of
    control groups, `own_cgroup_file` names those of this process.
    """
    quotas = [ceil(quota) for quota in _quotas(groups, own)]
    return max(1, min([_affinity(), *quotas]))


def _affinity() -> int:
    """Return how many processors this process may be scheduled on."""
    process_cpu_count = getattr(os, "process_cpu_count", None)
    if process_cpu_count is not None:
        return int(process_cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(groups: Path, own: Path) -> list[float]:
    """Return the quotas of this process's groups, in processors; empty if there are none."""
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
    """Return the mount point of the processor controller, which has one of two names."""
    mounted = groups / controllers
    return mounted if mounted.is_dir() else groups / "cpu"


def _folders(root: Path, name: str) -> list[Path]:
    """Return the group's folder and those above it.

    Inside a container the group is often mounted as the root, whatever its name outside.
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
    """Return the content of a kernel file, or an empty text if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
