"""An experiment: the configuration that `train` reads before anything is made."""

import gin

from t2t_repro import experiment


def test_what_train_is_given_is_read_without_making_the_rest():
    lines = ["train.callbacks = [@BeamSearch()]", "BeamSearch.beam_size = 0", "train.seed = %seed"]
    gin.parse_config([*lines, "seed = 7"])
    assert experiment._bound_of_train("seed", 1) == 7
    gin.clear_config()
    assert experiment._bound_of_train("seed", 1) == 1
