"""Which of its tests CI leaves to the nightly run."""

import pytest

from tests.support.suites import is_slow_module, select_first_forms

TEST = "tests/integration/evm/test_kickout_on_chain.py::test_a_node_is_kicked_out"


def test_ci_runs_slow_test_only_with_its_first_parameter_set():
    assert select_first_forms([f"{TEST}[one]", f"{TEST}[two]"]) == {f"{TEST}[one]"}


def test_ci_runs_slow_database_test_on_postgresql():
    forms = [f"{TEST}[{engine}-{kind}]" for engine in ("sqlite", "postgresql") for kind in "ab"]
    assert select_first_forms(forms) == {f"{TEST}[postgresql-a]"}


def test_every_slow_test_runs_in_ci_with_one_parameter_set():
    tests = [f"{TEST}[a]", f"{TEST}_again", f"{TEST}_twice[sqlite]", f"{TEST}_twice[postgresql]"]
    assert {form.partition("[")[0] for form in select_first_forms(tests)} == {
        test.partition("[")[0] for test in tests
    }


@pytest.mark.parametrize(
    ("source", "is_slow"),
    [
        ("pytestmark = pytest.mark.slow\n", True),
        ("pytestmark = [\n    pytest.mark.evm,\n    pytest.mark.slow,\n]\n", True),
        ("pytestmark = pytest.mark.evm\n", True),
        ("pytestmark = pytest.mark.evm\n@pytest.mark.main_path\n", False),
        ("pytestmark = pytest.mark.timeout(900)\n@pytest.mark.slow\n", False),
        ("@pytest.mark.slow\n", False),
    ],
)
def test_module_is_skipped_only_if_every_test_is_marked_slow(source, is_slow):
    assert is_slow_module(source) is is_slow
