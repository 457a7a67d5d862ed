"""The weights against a plain forward pass of one sentence at a time, and what they are named."""

import numpy as np
import pytest

from t2t_repro.attention.maps import (
    MAX_SUBWORDS,
    START,
    PairAttention,
    collect_weights,
)
from t2t_repro.errors import UserError
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import shared
from t2t_repro.text.training import SubwordTraining
from tests import reference
from tests.layer_test import randomize

VOCAB, HEADS = 13, 2
LAYERS = {"encoder": 3, "decoder": 2, "cross": 2}
SOURCE = np.array([[5, 3, 9, 12, 4, 1], [7, 7, 2, 1, 0, 0], [1, 0, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[4, 11, 6, 1, 0], [2, 8, 10, 3, 1], [1, 0, 0, 0, 0]], np.int32)


def small_model(vocab=VOCAB, neighbourhood=None, dtype="float32", **options):
    config = LayerConfig(d_model=8, d_ff=12, num_heads=HEADS, dropout=0.3, **options)
    sizes = {"neighbourhood": neighbourhood, "num_decoder_layers": 2}
    return randomize(Transformer(vocab, 3, config, dtype=dtype, **sizes))


class PlainSentence:
    """A Transformer's forward pass in NumPy, without a batch: so without any padding."""

    def __init__(self, model, source, target):
        self.normalization = model.config.normalization
        self.weights: dict[str, list[np.ndarray]] = {"encoder": [], "decoder": [], "cross": []}
        near = model.neighbourhood // 2 if model.neighbourhood else 99
        distance = np.subtract.outer(*[np.arange(20)] * 2)
        x = model.embed_source(source[None]).numpy()[0]
        allowed = abs(distance[: len(x), : len(x)]) <= near
        for layer in model.encoder.layers:
            x = self.attend("encoder", layer.around_self_attention, layer.self_attention, x, x,
                            allowed)  # fmt: skip
            x = self.feed_forward(layer, x)
        final = model.encoder.final_norm
        memory = reference.layer_norm(x, *arrays(final)) if final else x
        x = model.embed_target(target[None]).numpy()[0]
        allowed = (distance >= 0) & (distance <= near)
        allowed = allowed[: len(x), : len(x)]
        for layer in model.decoder.layers:
            x = self.attend("decoder", layer.around_self_attention, layer.self_attention, x, x,
                            allowed)  # fmt: skip
            x = self.attend("cross", layer.around_memory_attention, layer.memory_attention, x,
                            memory, np.ones((len(x), len(memory)), bool))  # fmt: skip
            x = self.feed_forward(layer, x)

    def attend(self, kind, around, attention, x, memory, allowed):
        is_self = memory is x

        def sublayer(y):
            keys = y if is_self else memory
            self.weights[kind].append(head_weights(attention, y, keys, allowed))
            return reference.multi_head_attention(attention, y, keys, allowed)

        return self.around(around, sublayer, x)

    def feed_forward(self, layer, x):
        w_1, b_1, w_2, b_2 = arrays(layer.feed_forward)

        def sublayer(y):
            return np.maximum(y @ w_1 + b_1, 0) @ w_2 + b_2

        return self.around(layer.around_feed_forward, sublayer, x)

    def around(self, connection, sublayer, x):
        def norm(y):
            return reference.layer_norm(y, *arrays(connection.norm))

        if self.normalization == "pre":
            return x + sublayer(norm(x))
        return norm(x + sublayer(x))


def arrays(layer):
    return [weight.numpy() for weight in layer.weights]


def head_weights(attention, query, memory, allowed):
    """softmax(Q K^T / sqrt(d_k)), a head after the other: [heads, queries, keys]."""
    w_q, w_k, *_ = arrays(attention)
    heads = []
    for h in range(attention.num_heads):
        of_head = slice(h * attention.d_k, (h + 1) * attention.d_k)
        scores = (query @ w_q[:, of_head]) @ (memory @ w_k[:, of_head]).T
        heads.append(reference.softmax(np.where(allowed, scores / np.sqrt(attention.d_k), -np.inf)))
    return np.stack(heads)


@pytest.mark.parametrize(
    "options",
    [{}, {"normalization": "pre"}, {"neighbourhood": 2}],
    ids=lambda options: " ".join(options) or "paper",
)
def test_every_layer_s_weights_are_those_of_a_plain_forward_pass(options):
    model = small_model(**options)
    found = collect_weights(model, SOURCE, TARGET)
    assert found.encoder.shape == (LAYERS["encoder"], 3, HEADS, 6, 6)
    assert found.decoder.shape == (LAYERS["decoder"], 3, HEADS, 5, 5)
    assert found.cross.shape == (LAYERS["cross"], 3, HEADS, 5, 6)
    for b, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        plain = PlainSentence(model, source[source != 0], target[target != 0])
        for kind, expected in plain.weights.items():
            *_, queries, keys = np.shape(expected)
            ours = getattr(found, kind)[:, b, :, :queries]
            np.testing.assert_allclose(ours[..., :keys], expected, atol=1e-5, err_msg=kind)
            # Nobody attends to padding, nor to what is not written yet.
            np.testing.assert_array_equal(ours[..., keys:], 0)
            if kind == "decoder":
                np.testing.assert_array_equal(np.triu(ours, 1), 0)


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
    SubwordTraining(vocab_size=290).train(["the red bird sees a tree"] * 9, path)
    return shared(SentencePieceModel(path))


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
    for attention in (encoder, decoder, cross):
        shape = (LAYERS[attention.kind], HEADS, len(attention.queries), len(attention.keys))
        assert attention.weights.shape == shape
    # At first there is nothing to read but <START>.
    first = decoder.weights[:, :, 0]
    np.testing.assert_array_equal(first, [[[1, 0, 0]] * HEADS] * LAYERS["decoder"])
    # The current weights are used.
    model.trainable_variables[0].assign(model.trainable_variables[0] * 2)
    assert (pair.maps()[0].weights != encoder.weights).any()


def test_an_empty_target_is_its_end_alone(model, subwords):
    assert PairAttention(model, subwords, "a", "").maps()[1].keys == [START]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sentence_too_long_to_look_at_is_refused(model, subwords, side):
    pair = {"source": "a", "target": "a"} | {side: "a " * MAX_SUBWORDS}
    with pytest.raises(UserError, match=f"the {side} has {MAX_SUBWORDS + 1} subwords"):
        PairAttention(model, subwords, **pair)
    PairAttention(model, subwords, **pair | {side: "a " * (MAX_SUBWORDS - 1)})
