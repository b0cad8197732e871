"""The compiled native code; its tests are skipped if there is none."""

import os

import pytest

from oracle.domain.native import Native, native as found


@pytest.fixture(scope="session")
def native() -> Native:
    if found is None and "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ:
        pytest.skip("no native code: apt-get install gcc python3-dev, then ./check")
    assert found is not None
    return found
