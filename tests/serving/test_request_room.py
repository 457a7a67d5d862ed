import pytest

from t2t_repro.serving.request_error import RequestError
from t2t_repro.serving.request_room import RequestRoom


def is_full(room, size):
    try:
        with room.of_one() as take:
            take(size)
            return False
    except RequestError as error:
        return error.code.name == "UNAVAILABLE"


def test_requests_are_counted():
    room = RequestRoom(2, 100)
    with room.of_one():
        assert not is_full(room, 1)
        with room.of_one():
            assert is_full(room, 0)
        assert not is_full(room, 1)


def test_bytes_are_counted_and_given_back_whatever_happens():
    room = RequestRoom(9, 100)
    with room.of_one() as take:
        take(20)
        take(40)
        assert is_full(room, 41)
        with room.of_one() as take_too:
            take_too(40)
            assert is_full(room, 1)
            with pytest.raises(RequestError):
                take(1)
        with pytest.raises(KeyError), room.of_one():
            raise KeyError
        assert not is_full(room, 40)
    assert not is_full(room, 100)
