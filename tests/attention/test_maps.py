"""The weights against those of queries and keys in NumPy, and what they are named."""

import numpy as np
import pytest

from t2t_repro.attention.maps import MAX_SUBWORDS, START, PairAttention, collect_weights
from t2t_repro.errors import UserError
from t2t_repro.model import attention
from t2t_repro.model.attention import attention_weights
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import shared
from t2t_repro.text.training import SubwordTraining
from tests import reference
from tests.layer_test import randomize
from tests.model.test_transformer import SOURCE, TARGET, VOCAB

HEADS = 2
LAYERS = {"encoder": 3, "decoder": 2, "cross": 2}


def small_model(vocab=VOCAB, neighbourhood=None, dtype="float32", **options):
    config = LayerConfig(d_model=8, d_ff=12, num_heads=HEADS, dropout=0.3, **options)
    sizes = {"neighbourhood": neighbourhood, "num_decoder_layers": 2}
    return randomize(Transformer(vocab, 3, config, dtype=dtype, **sizes))


@pytest.mark.parametrize(
    "options",
    [{}, {"normalization": "pre"}, {"neighbourhood": 2}],
    ids=lambda options: " ".join(options) or "paper",
)
def test_every_layer_s_weights_are_the_softmax_of_its_queries_and_keys(options, monkeypatch):
    model = small_model(**options)
    heads = []

    def record(queries, keys, mask):
        heads.append((queries.numpy(), keys.numpy()))
        return attention_weights(queries, keys, mask)

    monkeypatch.setattr(attention, "attention_weights", record)
    found = collect_weights(model, SOURCE, TARGET)
    near = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    near |= "neighbourhood" not in options
    of_kind = {"encoder": heads[:3], "decoder": heads[3::2], "cross": heads[4::2]}
    for b, (source, target) in enumerate(zip(SOURCE != 0, TARGET != 0, strict=True)):
        allowed = {
            "encoder": (source & near)[source],
            "decoder": np.tril(near[:5, :5])[target],
            "cross": np.broadcast_to(source, (target.sum(), 6)),
        }
        for kind, may_see in allowed.items():
            assert len(getattr(found, kind)) == LAYERS[kind]
            for of_layer, weights in zip(of_kind[kind], getattr(found, kind), strict=True):
                queries, keys = (x[b] for x in of_layer)
                scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(keys.shape[-1])
                scores = np.where(may_see, scores[:, : len(may_see)], -np.inf)
                expected = reference.softmax(scores)
                np.testing.assert_allclose(weights[b, :, : len(may_see)], expected, atol=1e-5)


def test_half_precision_gives_the_same_map_in_float32():
    exact = collect_weights(small_model(), SOURCE, TARGET)
    rough = collect_weights(small_model(dtype="mixed_bfloat16"), SOURCE, TARGET)
    for ours, theirs in zip(exact, rough, strict=True):
        assert theirs.dtype == np.float32
        assert abs(ours - theirs).mean() < 0.02


# Sentences


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "subwords.model"
    text = ["the red bird sees a tree"] * 9
    return shared(SubwordTraining(vocab_size=290).train(text, path))


@pytest.fixture(scope="module")
def model(subwords):
    return small_model(subwords.target.size)


def test_maps_name_what_is_predicted_and_what_is_read(model, subwords):
    pair = PairAttention(model, subwords, "the red bird", "a tree")
    encoder, decoder, cross = pair.maps()
    source, target = ["the", "red", "bird", "<EOS>"], ["a", "tree", "<EOS>"]
    assert (encoder.queries, encoder.keys) == (source, source)
    assert (decoder.queries, decoder.keys) == (target, [START, "a", "tree"])
    assert (cross.queries, cross.keys) == (target, source)
    for each in (encoder, decoder, cross):
        shape = (LAYERS[each.kind], HEADS, len(each.queries), len(each.keys))
        assert each.weights.shape == shape
    # At first there is nothing to read but <START>.
    first = decoder.weights[:, :, 0]
    np.testing.assert_array_equal(first, [[[1, 0, 0]] * HEADS] * LAYERS["decoder"])
    # The current weights are used.
    model.trainable_variables[0].assign(model.trainable_variables[0] * 2)
    assert (pair.maps()[0].weights != encoder.weights).any()


def test_a_decoder_without_self_attention_has_no_map_of_it(subwords):
    model = small_model(subwords.target.size, decoder_self_attention="ssru")
    maps = PairAttention(model, subwords, "the red bird", "a tree").maps()
    assert [one.kind for one in maps] == ["encoder", "cross"]
    assert maps[1].weights.shape == (LAYERS["cross"], HEADS, 3, 4)


def test_an_empty_target_is_its_end_alone(model, subwords):
    assert PairAttention(model, subwords, "a", "").maps()[1].keys == [START]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sentence_too_long_to_look_at_is_refused(model, subwords, side):
    pair = {"source": "a", "target": "a"} | {side: "a " * MAX_SUBWORDS}
    with pytest.raises(UserError, match=f"the {side} has {MAX_SUBWORDS + 1} subwords"):
        PairAttention(model, subwords, **pair)
    PairAttention(model, subwords, **pair | {side: "a " * (MAX_SUBWORDS - 1)})
