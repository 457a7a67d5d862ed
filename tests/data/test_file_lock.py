import os
from concurrent.futures import ThreadPoolExecutor

from t2t_repro.data.file_lock import locked


def test_there_is_one_holder_though_the_file_comes_and_goes(tmp_path):
    def hold(_):
        with locked(tmp_path / "lock"):
            os.close(os.open(tmp_path / "held", os.O_CREAT | os.O_EXCL))
            (tmp_path / "held").unlink()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(hold, range(40)))
    assert not list(tmp_path.iterdir())
