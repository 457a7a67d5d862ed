"""Signatures that a servable has where they are asked for: from a prefix, samples, alignments."""

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.decoding.sampling import Sampling
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.formats.saved_model.export import write_saved_model
from t2t_repro.formats.saved_model.servable import Servable
from t2t_repro.formats.saved_model.warm_up import read_warm_up
from t2t_repro.text.subword_model import shared
from t2t_repro.text.t2t import T2TSubwords
from tests.decoding.random_translator import ODD_LINES, random_model, with_search
from tests.formats.conftest import graph_of
from tests.formats.saved_model.cpp_client import texts_of
from tests.formats.saved_model.test_export import known_operations_of
from tests.text.test_t2t import VOCABULARY, write

PREFIXES = ["a tree", "", "x", "the", " ", "a blue", "🙂", "a " * 99, "", "", "a", "b", "c", "d"]
PREFIXES += ["the", "a tree"]


@pytest.fixture(scope="module")
def sampler(make_translator):
    return with_search(make_translator(), Sampling(2, nucleus=0.9, seed=4))


@pytest.fixture(scope="module")
def version(sampler, tmp_path_factory):
    """A model whose search is sampling."""
    servable = Servable(sampler, "float32", ["prefix", "sample", "alignment"])
    return write_saved_model(servable, tmp_path_factory.mktemp("made"), 1, "made")


@pytest.fixture(scope="module")
def answer(version):
    """Answers a request."""
    signatures = tf.saved_model.load(str(version)).signatures

    def answer(signature, **inputs):
        dtypes = {"seed": tf.int64}
        tensors = {
            name: tf.constant(values, dtypes.get(name, tf.string))
            for name, values in inputs.items()
        }
        outputs = signatures[signature](**tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    return answer


def assert_first(answer, expected):
    """The translations of an answer are the first of what a translator gave."""
    assert texts_of(answer["translation"]) == [some[0].text for some in expected]
    scores = [some[0].score for some in expected]
    np.testing.assert_allclose(answer["score"], scores, rtol=1e-5, atol=1e-5)


def test_a_served_model_draws_what_the_translator_draws(answer, sampler):
    expected = sampler.translate(ODD_LINES, 2)
    assert len({some[0].text for some in expected}) > 5
    assert_first(answer("serving_default", source=ODD_LINES), expected)
    several = answer("nbest", source=ODD_LINES)
    for texts, some in zip(several["translation"], expected, strict=True):
        assert texts_of(texts)[: len(some)] == [translation.text for translation in some]


def test_every_operation_is_one_of_tensorflow_2_12(version):
    assert {"BitwiseXor", "Log1p"} <= known_operations_of(graph_of(version))


def test_all_signatures_are_warmed_up_and_begin_with_the_batch(version, answer):
    signatures = {
        name: signature
        for name, signature in graph_of(version).signature_def.items()
        if not name.startswith("__")
    }
    asked = {request.model_spec.signature_name: request for request in read_warm_up(version)}
    assert asked.keys() == signatures.keys() >= {"prefix", "sample", "alignment", "nbest"}
    for name in ("prefix", "sample", "alignment"):
        places = [*signatures[name].inputs.values(), *signatures[name].outputs.values()]
        assert all([axis.size for axis in place.tensor_shape.dim] == [-1] for place in places)
        inputs = {key: tf.make_ndarray(value) for key, value in asked[name].inputs.items()}
        assert all(len(values) == 1 for values in answer(name, **inputs).values())


def test_each_sentence_has_its_seed(answer, sampler):
    """Sampling is as gin binds it here, not as the model's search."""
    seeds = [1, 7] * (len(ODD_LINES) // 2)
    of_seed = {
        seed: with_search(sampler, Sampling(seed=seed)).translate(ODD_LINES) for seed in (1, 7)
    }
    drawn = answer("sample", source=ODD_LINES, seed=seeds)
    expected = [of_seed[seed][row] for row, seed in enumerate(seeds)]
    assert_first(drawn, expected)
    assert of_seed[1] != of_seed[7]
    # In groups, and alone.
    for row in (0, 5, len(seeds) - 1):
        alone = answer("sample", source=ODD_LINES[row : row + 1], seed=seeds[row : row + 1])
        assert_first(alone, expected[row : row + 1])
    first, other, again = (
        texts_of(answer("sample", source=ODD_LINES, seed=[seed] * len(ODD_LINES))["translation"])
        for seed in (2**62, 2**62 + 1, 2**62)
    )
    assert first == again != other


def test_a_sample_from_a_prefix(answer, sampler):
    found = answer("prefix", source=ODD_LINES, prefix=PREFIXES)
    assert_first(found, sampler.translate(ODD_LINES, 1, PREFIXES))
    assert answer("prefix", source=[], prefix=[])["translation"].shape == (0,)


def test_beam_search_from_a_prefix(make_translator):
    translator = make_translator()
    prefix = Servable(translator, "float32", ["prefix"]).signatures()["prefix"]
    found = {
        name: value.numpy()
        for name, value in prefix(tf.constant(ODD_LINES), tf.constant(PREFIXES)).items()
    }
    expected = translator.translate(ODD_LINES, 1, PREFIXES)
    assert_first(found, expected)
    cut = [row for row, line in enumerate(ODD_LINES) if found["truncated"][row]]
    # Two sources and a prefix are too long.
    assert cut == [7, 12, 13]
    assert expected != translator.translate(ODD_LINES)


def test_alignments_are_the_translator_s(answer, sampler):
    targets = ["a tree sees the red bird", *ODD_LINES[:0:-1]]
    found = answer("alignment", source=ODD_LINES, target=targets)
    expected = sampler.align(ODD_LINES, targets)
    assert texts_of(found["alignment"]) == expected
    assert len(set(expected)) >= 5
    assert "" in expected
    assert found["truncated"].sum() == 4
    assert answer("alignment", source=[], target=[])["alignment"].shape == (0,)


def test_tensor2tensor_s_subwords_are_not_aligned_in_a_graph(tmp_path):
    subwords = shared(T2TSubwords(write(tmp_path / "vocabulary", VOCABULARY)))
    translator = Translator([random_model(subwords.target)], subwords)
    with pytest.raises(UserError, match="Tensor2Tensor"):
        Servable(translator, "float32", ["alignment"])
