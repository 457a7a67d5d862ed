"""Beam search with the Transformer against the translations of the original Tensor2Tensor."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.settings import BeamSearch
from t2t_repro.formats.tensor2tensor import transformer_from_t2t
from t2t_repro.model.step_decoder import StepDecoder
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.oracle import VARIANTS, oracle_arrays, oracle_folder

GROUPS = ("decode", "decode_early1", "decode_early4")
EXTRA = (10, 20)
BEAM = BeamSearch(beam_size=4, length_penalty=0.6)
# The original does not divide the score of a greedy translation by the penalty.
GREEDY = BeamSearch(beam_size=1, length_penalty=0.0)


class Decoder:
    """The original's model; one graph for each kind of search."""

    def __init__(self, variant):
        self.arrays = oracle_arrays(variant)
        self.model = transformer_from_t2t(oracle_folder(variant) / "checkpoint")
        self.graph = tf.function(self.search)

    def search(self, source, limit, search, n_best):
        decoder = StepDecoder(self.model, search.beam_size)
        limits = tf.fill([tf.shape(source)[0]], limit)
        constraints = DecodingConstraints(source)
        return search.search(decoder, decoder.begin(source), limits, limit, n_best, constraints)

    def decode(self, group, extra, search, n_best):
        source = self.arrays["batch1/source_ids"][self.arrays[f"{group}/rows"]]
        # The original counts the padding of the batch: S + extra.
        limit = source.shape[1] + extra
        graph = self.graph.get_concrete_function(
            tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.int32), search, n_best
        )
        return graph(tf.constant(source), tf.constant(limit))


@pytest.fixture(scope="module", params=VARIANTS)
def decoder(request):
    return Decoder(request.param)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("extra", EXTRA)
def test_beam_search_is_the_originals(decoder, group, extra):
    found = decoder.decode(group, extra, BEAM, 4)
    name = f"{group}/beam4_top4_extra{extra}"
    ids, scores = decoder.arrays[f"{name}/ids"], decoder.arrays[f"{name}/scores"]
    steps = ids.shape[-1]
    np.testing.assert_array_equal(found.ids[..., :steps], ids)
    assert (found.ids.numpy()[..., steps:] == PAD_ID).all()
    np.testing.assert_allclose(found.scores, scores, atol=1e-4)
    assert found.steps <= steps


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("extra", EXTRA)
def test_beam_of_one_is_the_originals_greedy_search(decoder, group, extra):
    found = decoder.decode(group, extra, GREEDY, 1)
    name = f"{group}/greedy_extra{extra}"
    expected = decoder.arrays[f"{name}/ids"]
    for row, ids in enumerate(expected):
        # It goes on after EOS.
        ends = np.flatnonzero(ids == EOS_ID)
        length = ends[0] + 1 if ends.size else len(ids)
        ours = found.ids[row, 0].numpy()
        np.testing.assert_array_equal(ours[:length], ids[:length])
        assert (ours[length:] == PAD_ID).all()
        assert found.finished[row] == bool(ends.size)
    np.testing.assert_allclose(found.scores[:, 0], decoder.arrays[f"{name}/scores"], atol=1e-4)
