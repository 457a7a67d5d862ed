import pytest

from t2t_repro.serving.request_error import RequestError
from t2t_repro.serving.request_room import RequestRoom


def is_full(room, size):
    try:
        with room.of(size):
            return False
    except RequestError as error:
        return error.code.name == "UNAVAILABLE"


def test_requests_are_counted():
    room = RequestRoom(2, 100)
    with room.of(1):
        assert not is_full(room, 1)
        with room.of(1):
            assert is_full(room, 0)
        assert not is_full(room, 1)


def test_bytes_are_counted_and_given_back_whatever_happens():
    room = RequestRoom(9, 100)
    with room.of(60):
        assert is_full(room, 41)
        with room.of(40):
            assert is_full(room, 1)
        with pytest.raises(KeyError), room.of(40):
            raise KeyError
        assert not is_full(room, 40)
    assert not is_full(room, 100)
