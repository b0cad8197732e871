"""The fold keeps the download requests of a day, by node."""

from oracle.domain.state import DOWNLOAD_HISTORY_SECONDS, DownloadRequest
from tests.support.histories import History, fold_node


def test_download_request_is_stored_in_node_row():
    history = History().joins("A").after(5).is_asked_to_download("A", "m", until=9000)
    assert fold_node(history, "A").downloads == (DownloadRequest("m", history.time, 9000),)


def test_old_download_request_is_dropped_after_24_hours():
    history = History().joins("A").is_asked_to_download("A", "m")
    history.after(DOWNLOAD_HISTORY_SECONDS - 1).is_asked_to_download("A", "n")
    assert [download.model for download in fold_node(history, "A").downloads] == ["m", "n"]
    history.after(1).is_asked_to_download("A", "o")
    assert [download.model for download in fold_node(history, "A").downloads] == ["n", "o"]


def test_download_request_does_not_change_score_or_membership():
    plain = History().joins("A")
    with_request = History().joins("A").is_asked_to_download("A", "m")
    before = fold_node(plain, "A")
    after = fold_node(with_request, "A")
    assert (before.pool, before.base, before.membership) == (
        after.pool,
        after.base,
        after.membership,
    )
