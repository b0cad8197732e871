"""Counts the processors that this process may use, given its CPU affinity and container quotas.

`os.cpu_count` is not used, because it returns the number of processors of the machine. Three
workers would then start in a container that is limited to half a processor. See
docs/explanation/segments.md#how-many-workers.
"""

import os
from math import ceil
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_OWN_CGROUP_FILE = Path("/proc/self/cgroup")
# How cgroup versions 2 and 1 state that a group has no CPU quota.
_UNLIMITED = ("max", "-1")


def count_usable_processors(
    cgroup_root: Path = _CGROUP_ROOT, own_cgroup_file: Path = _OWN_CGROUP_FILE
) -> int:
    """Return the number of processors that this process may use, rounded up.

    The result is the minimum of the affinity (or `PYTHON_CPU_COUNT`, from Python 3.13 on) and of
    the quotas of the process's control group and every group above it. `cgroup_root` is the mount
    point of control groups, and `own_cgroup_file` lists the groups of this process.
    """
    quotas = [ceil(quota) for quota in _read_cpu_quotas(cgroup_root, own_cgroup_file)]
    return max(1, min([_count_scheduled_processors(), *quotas]))


def _count_scheduled_processors() -> int:
    """Return the number of processors that the kernel may run this process on."""
    process_cpu_count = getattr(os, "process_cpu_count", None)
    if process_cpu_count is not None:
        return int(process_cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_cpu_quotas(cgroup_root: Path, own_cgroup_file: Path) -> list[float]:
    """Read the CPU quotas of this process's control groups, in processors.

    Groups without a quota are left out.
    """
    cpu_quotas = []
    for line in _read_kernel_file(own_cgroup_file).splitlines():
        _, _, controllers_and_name = line.partition(":")
        controllers, _, name = controllers_and_name.partition(":")
        if not controllers:
            group_root, read_quota = cgroup_root, _read_cgroup_v2_quota
        elif "cpu" in controllers.split(","):
            group_root = _find_cgroup_v1_root(cgroup_root, controllers)
            read_quota = _read_cgroup_v1_quota
        else:
            continue
        cpu_quotas += [
            quota
            for folder in _list_cgroup_folders(group_root, name)
            if (quota := read_quota(folder)) is not None
        ]
    return cpu_quotas


def _find_cgroup_v1_root(cgroup_root: Path, controllers: str) -> Path:
    """Return the mount point of the cgroup v1 cpu controller (`cpu` or `cpu,cpuacct`)."""
    controllers_root = cgroup_root / controllers
    return controllers_root if controllers_root.is_dir() else cgroup_root / "cpu"


def _list_cgroup_folders(root: Path, name: str) -> list[Path]:
    """Return the folders of a control group and of all groups above it.

    Inside a container the group is often mounted as the root, whatever its name outside is.
    """
    parts = [part for part in name.split("/") if part not in ("", "..")]
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _read_cgroup_v2_quota(folder: Path) -> float | None:
    quota, _, period = _read_kernel_file(folder / "cpu.max").strip().partition(" ")
    return _parse_quota(quota, period)


def _read_cgroup_v1_quota(folder: Path) -> float | None:
    quota, period = (
        _read_kernel_file(folder / f"cpu.cfs_{part}_us") for part in ("quota", "period")
    )
    return _parse_quota(quota.strip(), period.strip())


def _parse_quota(quota: str, period: str) -> float | None:
    if quota in _UNLIMITED or not (quota.isdecimal() and period.isdecimal() and int(period)):
        return None
    return int(quota) / int(period)


def _read_kernel_file(path: Path) -> str:
    """Read a kernel file, or return an empty string if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
