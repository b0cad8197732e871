"""What the pages load in a browser is what npm has under the locked versions, and nothing else."""

import json

from release.vendored import FILES, FOLDER, LIST, PACKAGES, locked, rows


def test_the_list_says_of_each_file_what_it_is_and_what_the_lock_says():
    assert json.loads(LIST.read_text("utf-8")) == rows()


def test_no_file_lies_there_that_is_not_in_the_list():
    lying = {path.name for path in FOLDER.iterdir()} - {LIST.name}
    assert lying == set(FILES)


def test_every_package_that_is_asked_for_is_locked_to_one_version():
    wanted = json.loads((PACKAGES / "package.json").read_text("utf-8"))["dependencies"]
    assert {name: locked()[name]["version"] for name in wanted} == wanted
    assert {package for package, _ in FILES.values()} == set(wanted)
