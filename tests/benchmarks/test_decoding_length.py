"""The clock in the search: it reads each segment's beginning, room and end, in this order."""

import pytest

from decoding_length import Moment, attention_timer, bytes_read, segments, timed_decoder
from peers.ours import never_end, random_model
from t2t_repro.decoding.step_loop import SEGMENT
from work import ModelSize

SIZE = ModelSize(vocab_size=50, num_layers=1, d_model=8, d_ff=12, num_heads=2, dropout=0.0)


@pytest.fixture(scope="module")
def model():
    model = random_model(SIZE, "float32")
    never_end(model)
    return model


def test_every_segment_is_read_twice_and_the_end_once(model):
    decode = timed_decoder(model, beam=2, batch=3, tokens=3 * SEGMENT)
    for _ in range(2):
        moments = decode()
        assert len(moments) == 2 * 3 + 1
        assert moments == sorted(moments)
        # The steps of a segment come after its room was made.
        assert all(step > room for step, _, room in segments(moments))


def test_segments_are_milliseconds_a_step():
    times = [0.0, 1.0, 4.0, 4.5, 9.0]
    found = segments([Moment(wall, 2 * wall) for wall in times])
    scale = 1000 / SEGMENT
    assert found == [(4 * scale, 8 * scale, scale), (5 * scale, 10 * scale, 0.5 * scale)]


def test_bytes_are_those_of_keys_and_values_of_every_hypothesis(model):
    # Keys and values, 4 bytes, 1 layer, 3 sentences, 2 hypotheses, 16 positions, d_model 8.
    assert bytes_read(model, beam=2, batch=3, length=16) == 2 * 4 * 3 * 2 * 16 * 8


def test_attention_alone_can_be_timed_at_any_length(model):
    attend = attention_timer(model, beam=2, batch=3)
    assert attend(16) > 0
    assert attend(32) > 0
