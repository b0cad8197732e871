"""The scripts and fonts of the pages are those of npm at the locked versions, and nothing else."""

import json

from release.vendored import (
    FILES,
    PACKAGES,
    VENDOR_FOLDER,
    VENDOR_LIST,
    build_vendor_rows,
    read_locked_packages,
)


def test_vendored_list_equals_lock_file():
    assert json.loads(VENDOR_LIST.read_text("utf-8")) == build_vendor_rows()


def test_vendored_folder_contains_only_listed_files():
    lying = {path.name for path in VENDOR_FOLDER.iterdir()} - {VENDOR_LIST.name}
    assert lying == set(FILES)


def test_every_vendored_dependency_is_locked_to_one_version():
    version_by_name = json.loads((PACKAGES / "package.json").read_text("utf-8"))["dependencies"]
    locked = read_locked_packages()
    assert {name: locked[name]["version"] for name in version_by_name} == version_by_name
    assert {package for package, _ in FILES.values()} == set(version_by_name)
