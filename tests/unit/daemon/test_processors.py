"""The number of processors that a process may use: its affinity,
and its control groups' quotas.
"""

import os
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, strategies as st

from oracle.daemon.config.processors import count_usable_processors
from tests.support.examples import examples

MACHINE = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
QUOTAS = st.one_of(st.none(), st.integers(1_000, 6_400_000))
PERIOD = 100_000


def version_2(root: Path, name: str, quotas: list[int | None]) -> tuple[Path, Path]:
    """Write the files of a control group and of its parents, the root first."""
    parts = [part for part in name.split("/") if part]
    for depth, quota in enumerate(quotas):
        folder = root.joinpath(*parts[:depth])
        folder.mkdir(parents=True, exist_ok=True)
        quota_text = "max" if quota is None else str(quota)
        (folder / "cpu.max").write_text(f"{quota_text} {PERIOD}\n")
    own = root / "own"
    own.write_text(f"0::{name}\n")
    return root, own


def version_1(root: Path, name: str, quotas: list[int | None]) -> tuple[Path, Path]:
    parts = [part for part in name.split("/") if part]
    for depth, quota in enumerate(quotas):
        folder = (root / "cpu,cpuacct").joinpath(*parts[:depth])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.cfs_quota_us").write_text(f"{-1 if quota is None else quota}\n")
        (folder / "cpu.cfs_period_us").write_text(f"{PERIOD}\n")
    own = root / "own"
    own.write_text(f"5:memory:{name}\n4:cpu,cpuacct:{name}\n1:name=systemd:{name}\n")
    return root, own


@pytest.mark.parametrize("laid_out", [version_1, version_2], ids=["v1", "v2"])
@given(quotas=st.lists(QUOTAS, min_size=3, max_size=3))
@examples(60)
def test_smallest_cpu_quota_of_all_parent_cgroups_applies(
    laid_out: object, quotas: list[int | None]
):
    assert callable(laid_out)
    with TemporaryDirectory() as folder:
        groups, own = laid_out(Path(folder), "/kubepods/pod1", quotas)
        processors = [ceil(quota / PERIOD) for quota in quotas if quota is not None]

        assert count_usable_processors(groups, own) == max(1, min([MACHINE, *processors]))


@pytest.mark.parametrize("laid_out", [version_1, version_2], ids=["v1", "v2"])
def test_cpu_quota_applies_if_the_mount_shows_only_the_own_cgroup(
    laid_out: object, tmp_path: Path
):
    assert callable(laid_out)
    groups, own = laid_out(tmp_path, "/", [PERIOD // 2])
    own.write_text(own.read_text().replace(":/\n", ":/docker/0123456789ab\n"))

    assert count_usable_processors(groups, own) == 1


@pytest.mark.parametrize("content", ["", "max", "max 100000", "0 0", "x y", "100000", "-5 100000"])
def test_unreadable_cgroup_quota_is_ignored(tmp_path: Path, content: str):
    (tmp_path / "cpu.max").write_text(content)
    own = tmp_path / "own"
    own.write_text("0::/\n")

    assert count_usable_processors(tmp_path, own) == MACHINE


def test_cpu_affinity_applies_without_cgroups(tmp_path: Path):
    assert count_usable_processors(tmp_path, tmp_path / "nothing") == MACHINE


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone has affinities")
def test_thread_pinned_to_one_cpu_counts_one_cpu(tmp_path: Path):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert count_usable_processors(tmp_path, tmp_path / "nothing") == 1
    finally:
        os.sched_setaffinity(0, before)
