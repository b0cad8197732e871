"""The frames that writer and worker exchange over a pipe."""

from io import BytesIO

import pytest
from hypothesis import given, strategies as st

from oracle.chain.segments.segment_request import (
    FrameError,
    SegmentPlan,
    WorkerSetup,
    read_frame,
    write_frame,
)

MAX_BYTES = 1000


def pipe_with(*contents: bytes) -> BytesIO:
    pipe = BytesIO()
    for content in contents:
        write_frame(pipe, content)
    pipe.seek(0)
    return pipe


@given(st.lists(st.binary(max_size=MAX_BYTES)))
def test_frames_round_trip_through_pipe(contents: list[bytes]):
    pipe = pipe_with(*contents)

    assert [read_frame(pipe, MAX_BYTES) for _ in contents] == contents
    assert read_frame(pipe, MAX_BYTES) is None


@given(st.binary(min_size=1, max_size=50), st.data())
def test_truncated_frame_raises_frame_error(content: bytes, data: st.DataObject):
    frame = pipe_with(content).getvalue()
    cut = data.draw(st.integers(1, len(frame) - 1))

    with pytest.raises(FrameError):
        read_frame(BytesIO(frame[:cut]), MAX_BYTES)


def test_oversized_frame_length_raises_frame_error():
    with pytest.raises(FrameError):
        read_frame(BytesIO(b"\xff\xff\xff\xffxx"), MAX_BYTES)


def test_repr_of_worker_setup_hides_endpoint_urls():
    plan = SegmentPlan(1, "reference", {}, None, {}, "x", 4, True, False, 1)

    assert "secret" not in repr(WorkerSetup(plan, ("http://host/secret",)))
