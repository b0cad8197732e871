"""Labels of addresses from a file: merged with those of the settings, or rejected in one line."""

from pathlib import Path

import pytest

from oracle.cli.main import run
from oracle.daemon.config.loader import read_config

FIRST, SECOND = (f"0x{number:040x}" for number in (1, 2))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "oracle.toml"
    path.write_text(
        f'[database]\nurl = "sqlite:///{tmp_path}/none.sqlite"\n'
        '[chain]\nid = 31337\nendpoints = ["http://127.0.0.1:1"]\n'
        f'[network]\ncontracts = {{ TaskNetwork = "{FIRST}" }}\nlabels_file = "labels.txt"\n'
        f'labels = {{ "{FIRST}" = "from the settings" }}\n',
        "utf-8",
    )
    return path


def test_labels_from_file_extend_labels_from_settings(config: Path):
    text = f"# racks\n\n{FIRST} rack 1\n{SECOND.upper().replace('X', 'x')}   rack 2 \n"
    config.with_name("labels.txt").write_text(text, "utf-8")
    labels = read_config(config).network.labels
    assert labels == {FIRST: "from the settings", SECOND: "rack 2"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (f"{FIRST} rack 1\n0x12 rack 2", "line 2"),
        (f"{FIRST} <b>bold</b>", "line 1"),
        (f"{FIRST}", "line 1"),
        (f"{FIRST} {'x' * 33}", "line 1"),
        (f"{FIRST} a\n{FIRST} b", "line 2"),
        (None, "cannot be read"),
    ],
)
def test_invalid_labels_file_exits_with_2_and_one_line_error(
    config: Path, text: str | None, where: str, capsys
):
    if text is not None:
        config.with_name("labels.txt").write_text(text, "utf-8")
    assert run(["nodes", "-c", str(config)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert where in line
    assert "labels.txt" in line
