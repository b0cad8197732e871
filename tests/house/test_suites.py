"""What CI leaves to the night of the tests that it plays."""

from tests.support.suites import first_forms

TEST = "tests/integration/evm/test_kicking.py::test_a_node_is_kicked_out"


def test_of_a_slow_test_ci_plays_the_first_parameters():
    assert first_forms([f"{TEST}[one]", f"{TEST}[two]"]) == {f"{TEST}[one]"}


def test_where_it_is_played_on_both_engines_ci_plays_it_on_postgresql():
    forms = [f"{TEST}[{engine}-{kind}]" for engine in ("sqlite", "postgresql") for kind in "ab"]
    assert first_forms(forms) == {f"{TEST}[postgresql-a]"}


def test_no_test_of_the_folder_is_left_out_of_ci_by_its_parameters_alone():
    tests = [f"{TEST}[a]", f"{TEST}_again", f"{TEST}_twice[sqlite]", f"{TEST}_twice[postgresql]"]
    assert {form.partition("[")[0] for form in first_forms(tests)} == {
        test.partition("[")[0] for test in tests
    }
