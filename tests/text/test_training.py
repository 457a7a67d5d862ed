"""Learning subwords: deterministic, from a uniform sample, the same as SentencePiece from lines."""

import io
import random
from typing import Any
from unicodedata import normalize

import pytest
import sentencepiece

from t2t_repro.errors import UserError
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.training import SubwordTraining
from t2t_repro.vocabulary import EOS_ID, PAD_ID, UNK_ID
from tests.text.odd_text import sentences


def test_text_is_written_as_readers_know_it_unless_another_normalization_is_given(models):
    kept = "m² ½ ﬁ ，？（） می\u200cروم Å ậ क़ 한"
    given = f"{normalize('NFD', kept)}\u00a0a\u3000b\x01\ufeff c"
    names = "plain", "ending", "identity"
    texts = [models[name].decode(models[name].encode([given])[0]) for name in names]
    written = f"{normalize('NFC', kept)} a b c"
    as_given = given.replace("\ufeff", "")
    assert texts == [written, normalize("NFKC", written).replace("\u200c", " "), as_given]


def test_training_is_deterministic_and_leaves_only_the_model(tmp_path):
    recipe = SubwordTraining(vocab_size=350, sample_size=500)
    first, again = (recipe.train(sentences(), tmp_path / "deep/er" / name, 2000) for name in "ab")
    assert first.sentencepiece() == again.sentencepiece()
    assert sorted(path.name for path in (tmp_path / "deep/er").iterdir()) == ["a", "b"]


def test_counted_words_make_the_model_that_their_text_makes(tmp_path):
    odd = ["  two  spaces ", "a\u00a0b", "x\u3000y ½ ﬁ", "…", "▁mark▁", "e\u0301 \u0301", "한 🦄"]
    corpus = sentences(500) + odd * 5 + ["1,234.5 a-b"] * 9
    made = SubwordTraining(400, normalization="nmt_nfkc").train(corpus, tmp_path / "a.model")
    plain, lines = io.BytesIO(), (line.replace("▁", " ").encode() for line in corpus)
    given: Any = {"sentence_iterator": lines, "model_writer": plain, "minloglevel": 2}
    given |= {"model_type": "bpe", "vocab_size": 400, "character_coverage": 0.9999}
    given |= {"split_digits": False, "split_by_unicode_script": True, "byte_fallback": True}
    given |= {"normalization_rule_name": "nmt_nfkc", "max_sentence_length": 2**30}
    given |= {"num_threads": 4, "pad_id": PAD_ID, "eos_id": EOS_ID, "unk_id": UNK_ID, "bos_id": -1}
    sentencepiece.SentencePieceTrainer.train(**given)
    # As a bool: pytest would take minutes to show the difference.
    assert bool(made.sentencepiece() == plain.getvalue())


def test_the_sample_is_a_reservoir(tmp_path):
    corpus, recipe = sentences(), SubwordTraining(vocab_size=350, sample_size=500, seed=7)
    generator, reservoir = random.Random(7), []
    for count, sentence in enumerate(corpus):
        if count < 500:
            reservoir.append(sentence)
        elif (place := generator.randrange(count + 1)) < 500:
            reservoir[place] = sentence
    sampled = recipe.train(corpus, tmp_path / "a.model", len(corpus))
    expected = SubwordTraining(vocab_size=350).train(reservoir, tmp_path / "b.model")
    assert bool(sampled.sentencepiece() == expected.sentencepiece())


def test_a_very_long_sentence_is_learned_from(tmp_path):
    model = SubwordTraining(vocab_size=262).train(["zzzz " * 20_000], tmp_path / "l.model")
    assert len(model.encode(["zzzz"])[0]) == len(["▁", "zz", "zz", EOS_ID])


def test_the_largest_possible_vocabulary_is_named_and_works(tmp_path):
    with pytest.raises(UserError, match=r"vocab_size is 37000; .*too high") as error:
        SubwordTraining().train(sentences(), tmp_path / "m.model")
    assert not list(tmp_path.iterdir())
    largest = int(str(error.value).split("<= ")[1].rstrip("."))
    SubwordTraining(vocab_size=largest).train(sentences(), tmp_path / "m.model")
    with pytest.raises(UserError):
        SubwordTraining(vocab_size=largest + 1).train(sentences(), tmp_path / "m.model")
    assert SentencePieceModel(tmp_path / "m.model").size == largest


def test_descriptions_of_older_data_still_match():
    recipe = SubwordTraining(vocab_size=300)
    assert not {"symbols", "word_mark"} & recipe.describe().keys()
    with_two = recipe.with_symbols(["<a>"]).with_symbols(["<b>", "<a>"])
    assert with_two.describe()["symbols"] == ("<a>", "<b>")
    assert SubwordTraining(word_mark="end").describe()["word_mark"] == "end"


@pytest.mark.parametrize("symbol", ["news", "<a b>", " <a>", "<a> ", " a ", "</s>", "<0x41>"])
def test_symbols_that_cannot_be_told_from_text_are_refused(symbol):
    with pytest.raises(UserError, match="cannot be a symbol"):
        SubwordTraining(symbols=[symbol])


def test_subwords_cannot_be_learned_from_nothing(tmp_path):
    with pytest.raises(UserError, match="there is no text"):
        SubwordTraining(300).train([], tmp_path / "made.model")
