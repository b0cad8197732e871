"""Taking the lease where the last holder hangs: whoever waits says for whom."""

import pytest

from oracle.errors import TransientError
from oracle.services.leasing import take, try_take
from oracle.store import engine
from oracle.store.store import Store


def test_whoever_waits_for_a_holder_that_hangs_inside_a_write_names_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.05)
    with Store.open(database_url) as old, Store.open(database_url) as new:
        with old.transaction() as unit:
            assert unit.lease.take("the old one", -1) == 1
        with old.transaction() as unit:
            unit.lease.prove(1)
            with pytest.raises(TransientError, match=r"lease of the old one is over: .* kill it"):
                try_take(new, "new")
        assert take(new, "new") == 2
