"""What Hugging Face's formulas make of an exported model, against the model itself."""

from typing import Any

import numpy as np
import pytest

from t2t_repro.decoding.settings import (
    BeamSearch,
    ImportedBehaviour,
    MarianSearch,
    Sampling,
    TranslatorSettings,
    power_penalty,
    wu_penalty,
)
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.formats.hugging_face.export import HuggingFaceModel, equal_exponent
from t2t_repro.formats.hugging_face.model import read_config, read_hugging_face
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.characters import visible
from t2t_repro.text.subword_model import SubwordPair, shared
from t2t_repro.text.training import SubwordTraining
from t2t_repro.vocabulary import PAD_ID
from tests.layer_test import randomize
from tests.marian_formulas import Marian, MarianTokenizer, logits_of

SIZES: dict[str, dict[str, Any]] = {
    "a shallow decoder": {
        "config": LayerConfig(24, 16, 3), "num_layers": 3, "num_decoder_layers": 1,
    },
    "as Marian's": {
        "config": LayerConfig(
            16, 24, 2, activation="swish", attention_biases=True, norm_epsilon=1e-5
        ),
        "positional_encoding": "halves", "logits_bias": True, "num_decoder_layers": 2,
    },
    "the softmax's own": {
        "config": LayerConfig(16, 16, 2, activation="gelu"), "logits_bias": True,
        "tied_embeddings": "source_target",
    },
    "Marian's own positions": {
        "config": LayerConfig(16, 24, 2, activation="swish"),
        "positional_encoding": "concatenated",
    },
    "none tied": {"config": LayerConfig(16, 16, 4, activation="tanh"), "tied_embeddings": "none"},
}  # fmt: skip
SOURCES = ["the red bird", "a", "a tree, a house", "the river, the stone and the cloud", "x ⁇ 🙂"]
SOURCES += [""]
TARGETS = ["a blue bird", "the stone and the river sees", "a", "", "🙂 Ω", "the"]
LINES = [*SOURCES, "  two   blanks ", "\ttab\n", "日本語 ½ ﬁ", "</s> <unk> <pad> <s>", "<0x41>"]
LINES += ["<pad_column> <row_310>", "a >>fra<< b", "a\u2581b", "\ufeff\u200b\u00a0", "x" * 300]


def model_of(rows, **sizes):
    model = Transformer(rows, **{"num_layers": 1, **sizes})
    return randomize(model, 3, lambda weight: 0.3 if len(weight.shape) == 1 else 0.5)


@pytest.fixture(scope="module", params=SIZES)
def pair(request, subwords, tmp_path_factory):
    """A translator with rows to spare, and the directory that is made of it."""
    model = model_of(subwords.size + 7, **SIZES[request.param])
    before = model.get_weights()
    settings = TranslatorSettings(max_source_length=60, max_extra_length=9)
    translator = Translator([model], shared(subwords), settings)
    folder = tmp_path_factory.mktemp("exported") / "new" / "made"
    HuggingFaceModel(translator).write(folder, "the card")
    np.testing.assert_equal(before, model.get_weights())
    return translator, folder


def with_pad_column(logits, rows):
    """Their logits in the order of our rows."""
    if logits.shape[1] == rows:
        return logits
    assert logits.shape[1] == rows + 1
    return np.concatenate([logits[:, -1:], logits[:, 1:-1]], axis=1)


def test_logits_and_probabilities_are_ours(pair, subwords):
    translator, folder = pair
    theirs = Marian.read(folder)
    for source, target in zip(*map(subwords.encode, (SOURCES, TARGETS)), strict=True):
        ours, found = logits_of(translator.model, source, target), theirs.logits(source, target)
        rows = with_pad_column(found, translator.model.vocab_size)
        np.testing.assert_allclose(rows, ours, atol=1e-4, rtol=1e-5)
        # PAD's own row there takes nothing of the others' probability.
        normaliser = np.log(np.exp(ours.astype(np.float64)).sum(-1))
        np.testing.assert_allclose(np.log(np.exp(found).sum(-1)), normaliser, atol=1e-4, rtol=1e-5)


def test_every_id_has_a_name_and_lines_have_our_ids(pair, subwords):
    theirs, config = MarianTokenizer(pair[1]), Marian.read(pair[1]).config
    assert theirs.config["split_special_tokens"]
    assert sorted(theirs.ids["source"].values()) == list(range(config["vocab_size"]))
    assert sorted(theirs.ids["target"].values()) == list(range(config["decoder_vocab_size"]))
    for line, ids in zip(LINES, subwords.encode(LINES), strict=True):
        given = visible(line)
        assert theirs.encode(given) == theirs.encode(given, "target") == ids
        assert theirs.decode(ids) == subwords.decode(ids).strip()


def test_a_row_of_zeros_for_pad_needs_no_column(subwords, tmp_path):
    model = model_of(subwords.size, config=LayerConfig(16, 16, 2), logits_bias=True)
    table = np.array(model.embedding.table)
    table[PAD_ID] = 0
    model.embedding.table.assign(table)
    HuggingFaceModel(Translator([model], shared(subwords))).write(tmp_path / "made", "")
    theirs = Marian.read(tmp_path / "made")
    assert theirs.config["vocab_size"] == subwords.size
    np.testing.assert_array_equal(theirs.weights["final_logits_bias"][0], model.logits_bias)
    sines_first = [*range(0, 16, 2), *range(1, 16, 2)]
    np.testing.assert_array_equal(theirs.weights["model.shared.weight"], table[:, sines_first])


@pytest.mark.parametrize(("renormalize", "tied"), [(False, "all"), (True, "source_target")])
def test_a_pad_that_is_never_written_has_no_other_name(subwords, tmp_path, renormalize, tied):
    """As of an imported model that was trained on: PAD's row is not zero any more."""
    model = model_of(subwords.size, config=LayerConfig(16, 16, 2), tied_embeddings=tied)
    behaviour = ImportedBehaviour(forbid_pad=True, renormalize=renormalize)
    settings = TranslatorSettings(max_source_length=60, imported=behaviour)
    translator = Translator([model], shared(subwords), settings)
    exported = HuggingFaceModel(translator)
    exported.write(tmp_path / "made", "")
    theirs = Marian.read(tmp_path / "made")
    assert theirs.config["vocab_size"] == subwords.size
    assert exported.generation["bad_words_ids"] == [[PAD_ID]]
    assert exported.generation.get("renormalize_logits", False) == renormalize
    keeps_pad = any("forbidden ids" in line for line in exported.differences)
    assert keeps_pad == (tied == "all" and not renormalize)
    source, target = subwords.encode(["the red bird", "a tree"])
    ours, found = logits_of(model, source, target), theirs.logits(source, target)
    np.testing.assert_allclose(found[:, 1:], ours[:, 1:], atol=1e-4, rtol=1e-5)
    config = read_config(tmp_path / "made")
    assert (config.forbidden, config.renormalizes) == ([PAD_ID], renormalize)


def test_imported_and_exported_again_it_is_the_same_bit_for_bit(pair, subwords, tmp_path):
    translator, folder = pair
    marian = read_hugging_face(folder)
    pieces = marian.text.write(tmp_path)
    assert pieces.source.encode(LINES[:-1]) == subwords.encode(LINES[:-1])
    assert marian.model.tied_embeddings == translator.model.tied_embeddings
    ours = translator.model.positional_encoding.kind
    assert marian.model.positional_encoding.kind == {"interleaved": "halves"}.get(ours, ours)
    again = Translator([marian.model], pieces, translator.settings)
    HuggingFaceModel(again).write(tmp_path / "again", "")
    before, after = Marian.read(folder).weights, Marian.read(tmp_path / "again").weights
    np.testing.assert_equal(before, after)
    for name in ("source.spm", "target.spm"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_vectors_that_vary_little_are_normalised_as_ours_are(subwords, tmp_path):
    """With norms of small weights it is seen which ε they have."""
    sizes = {"num_layers": 3, "num_decoder_layers": 2}
    model = model_of(subwords.size, config=LayerConfig(24, 16, 3), **sizes)
    for weight in model.trainable_variables:
        if weight.name in ("gamma", "beta") or "output" in weight.path or "outer" in weight.path:
            weight.assign(np.array(weight) * 0.1)
    HuggingFaceModel(Translator([model], shared(subwords))).write(tmp_path / "made", "")
    source, target = subwords.encode(["the red bird", "a tree"])
    ours = logits_of(model, source, target)
    found = Marian.read(tmp_path / "made").logits(source, target)
    apart = np.abs(with_pad_column(found, model.vocab_size) - ours).max()
    unscaled = model_of(subwords.size, config=LayerConfig(24, 16, 3, norm_epsilon=1e-5), **sizes)
    unscaled.set_weights(model.get_weights())
    assert apart < 0.2 * np.abs(logits_of(unscaled, source, target) - ours).max()


def test_two_vocabularies(subwords, tmp_path):
    text = ["ein roter vogel", "die wolke"] * 9
    target = SubwordTraining(vocab_size=280).train(text, tmp_path / "b")
    sizes = {"tied_embeddings": "target_softmax", "source_vocab_size": subwords.size}
    model = model_of(target.size, config=LayerConfig(16, 16, 2), **sizes)
    translator = Translator([model], SubwordPair(subwords, target))
    HuggingFaceModel(translator).write(tmp_path / "made", "")
    theirs = MarianTokenizer(tmp_path / "made")
    source, ids = subwords.encode(["the bird"])[0], target.encode(["die wolke"])[0]
    assert theirs.encode("the bird") == source
    assert theirs.encode("die wolke", "target") == ids
    assert theirs.decode(ids) == "die wolke"
    rows = with_pad_column(Marian.read(tmp_path / "made").logits(source, ids), model.vocab_size)
    np.testing.assert_allclose(rows, logits_of(model, source, ids), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        ({"normalization": "pre"}, "LayerConfig.normalization = 'pre'"),
        ({"d_k": 9}, "LayerConfig.d_k = 9"),
        ({"decoder_self_attention": "ssru"}, "LayerConfig.decoder_self_attention = 'ssru'"),
    ],
)
def test_what_marian_cannot_hold_is_refused_by_name(layer, named, subwords):
    model = model_of(subwords.size, config=LayerConfig(16, 16, 2, **layer))
    with pytest.raises(UserError, match=named):
        HuggingFaceModel(Translator([model], shared(subwords)))


def test_the_exponent_that_grows_as_fast(subwords):
    for alpha in (0.0, 0.6, 1.0):
        exact = equal_exponent(BeamSearch(4, alpha, power_penalty), 17.3)
        assert exact == pytest.approx(alpha, abs=1e-5)
        near = equal_exponent(BeamSearch(4, alpha, wu_penalty), 20)
        assert near == pytest.approx(alpha * 20.5 / 25.5, abs=1e-3)


def test_the_search_is_told(subwords):
    model = model_of(subwords.size, config=LayerConfig(16, 16, 2))

    def told(search, rerank=None, **imported):
        behaviour = ImportedBehaviour(**imported)
        all_settings = TranslatorSettings(search, rerank=rerank, imported=behaviour)
        return HuggingFaceModel(Translator([model], shared(subwords), all_settings), 15.0)

    beam = told(BeamSearch(5, 0.8, power_penalty))
    assert (beam.generation["num_beams"], beam.generation["length_penalty"]) == (5, 0.8)
    assert beam.differences == []
    assert "penalty at 15 subwords" in told(BeamSearch(4, 0.6)).differences[0]
    marians = told(MarianSearch(6, 0.7), forbidden_ids=(5, 2), max_length_factor=3.0)
    assert (marians.generation["num_beams"], marians.generation["length_penalty"]) == (6, 0.7)
    assert marians.generation["bad_words_ids"] == [[PAD_ID], [2], [5]]
    assert marians.generation["max_length"] == 3 * 1024 + 50
    assert marians.differences == []
    assert "word penalty" in told(MarianSearch(6, 0.7, word_penalty=0.5)).differences[0]
    shares = told(BeamSearch(1), forbidden_ids=(2,), forbid_pad=True, renormalize=True)
    assert any("forbidden ids" in difference for difference in shares.differences)
    sampling = told(Sampling())
    assert sampling.generation["num_beams"] == 1
    assert sampling.differences == ["Sampling is left out: transformers will translate greedily"]
