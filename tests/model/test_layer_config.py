import pytest

from t2t_repro.model.layer_config import LayerConfig


def test_defaults_are_the_base_model():
    config = LayerConfig()
    assert (config.d_model, config.d_ff, config.num_heads) == (512, 2048, 8)
    assert (config.key_depth, config.value_depth) == (64, 64)
    assert (config.dropout, config.attention_dropout, config.relu_dropout) == (0.1, 0, 0)
    assert config.normalization == "post"


def test_depths_of_their_own():
    config = LayerConfig(d_k=16)
    assert (config.key_depth, config.value_depth) == (16, 64)
    assert LayerConfig(d_model=10, num_heads=3, d_k=4, d_v=2).value_depth == 2


def test_round_trip():
    config = LayerConfig(d_model=8, num_heads=2, d_k=3, normalization="pre", relu_dropout=0.3)
    assert LayerConfig.of(config.to_dict()) == config
    assert LayerConfig.of(config) is config


def test_a_model_that_was_saved_before_there_was_an_option_has_its_default():
    saved = LayerConfig(recompute=True).to_dict()
    assert LayerConfig.of(saved).recompute
    del saved["recompute"]
    assert not LayerConfig.of(saved).recompute


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"normalization": "none"}, "'none', expected 'post' or 'pre'"),
        ({"norm_epsilon": 0}, "0, expected a number above 0 and below 1"),
        ({"attention_biases": 1}, "1, expected True or False"),
        ({"recompute": "yes"}, "'yes', expected True or False"),
        ({"d_model": 9, "num_heads": 3}, "9, expected an even number"),
        ({"d_model": 10, "num_heads": 3}, "not divisible by num_heads=3"),
        ({"d_model": 10, "num_heads": 3, "d_k": 4}, "not divisible by num_heads=3"),
    ],
)
def test_sizes_that_do_not_fit(sizes, message):
    with pytest.raises(ValueError, match=message):
        LayerConfig(**sizes)
