"""What comes out of a tool's process is held to sizes before anything of it is read."""

from struct import pack

import pytest

from kedge.base.errors import KedgeError
from kedge.engine.frames import MESSAGE_BYTES_MAX, Deframer, Started, frame, sizes_of

PAYLOAD_MAX = 1_000


@pytest.mark.parametrize(
    ("message", "payload"),
    [(MESSAGE_BYTES_MAX + 1, 0), (10, PAYLOAD_MAX + 1), (10, 2**63), (2**32 - 1, 2**64 - 1)],
)
def test_a_frame_that_says_too_much_will_follow_is_refused_at_once(message, payload):
    with pytest.raises(KedgeError) as caught:
        next(Deframer(PAYLOAD_MAX).feed(pack(">IQ", message, payload)), None)
    assert caught.value.code == "broken_frame"


def test_a_frame_of_exactly_the_most_is_read():
    assert sizes_of(pack(">IQ", MESSAGE_BYTES_MAX, PAYLOAD_MAX), PAYLOAD_MAX) == (
        MESSAGE_BYTES_MAX,
        PAYLOAD_MAX,
    )


def test_frames_come_out_of_pieces_of_any_size():
    sent = b"".join(frame(Started(), len(payload)) + payload for payload in (b"", b"abc", b"x" * PAYLOAD_MAX))
    for size in (1, 7, 100, len(sent)):
        deframer = Deframer(PAYLOAD_MAX)
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        found = [payload for piece in pieces for _, payload in deframer.feed(piece)]
        assert found == [b"", b"abc", b"x" * PAYLOAD_MAX]
