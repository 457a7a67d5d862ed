"""BPE-dropout: its definition, what it keeps, and what it is a function of."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

import bpe_dropout
from bpe_dropout import BpeMerges, DropoutSegmenter, SubwordDropout
from t2t_repro.errors import UserError
from t2t_repro.text.subword_model import SubwordPair, open_subwords, shared
from t2t_repro.vocabulary import EOS_ID
from tests.text.odd_text import any_text, hypothetical, normalized, sentences
from tests.text.test_t2t import VOCABULARY, write


def segmented(subwords, lines, probability, seed=1, epoch=0, numbers=None):
    """The ids of every line."""
    segment = DropoutSegmenter(subwords.model_path, probability, (seed,))
    numbers = np.arange(len(lines)) if numbers is None else np.array(numbers)
    tokens, lengths = segment(epoch, numbers, subwords.encode_block(lines))
    assert tokens.dtype == lengths.dtype == np.int32
    return [part.tolist() for part in np.split(tokens, np.cumsum(lengths)[:-1])]


@hypothetical
@given(text=any_text)
def test_all_merges_of_any_text_give_what_sentencepiece_gives(any_model, text):
    merges = BpeMerges(any_model.model_path)
    (ids,) = any_model.encode([text])
    split, count = merges.characters(np.array(ids[:-1], np.int32).tobytes()), 0
    # The best merge first.
    while split.candidates:
        split, count = merges.after(split, 0), count + 1
    assert np.frombuffer(merges.encode(split), np.int32).tolist() == ids[:-1]
    assert count == merges.merges_in[ids].sum()


@hypothetical
@given(text=any_text, probability=st.sampled_from([0.0, 0.001, 0.1, 0.5, 1.0]))
def test_the_text_stays_the_same(any_model, text, probability):
    (ids,) = segmented(any_model, [text], probability)
    assert ids[-1] == EOS_ID
    assert any_model.decode(ids) == normalized(any_model, text)
    if not probability:
        assert [ids] == any_model.encode([text])


def test_without_merges_a_word_is_its_characters_and_bytes_and_a_tag_is_whole(models):
    tagged = models["tagged"]
    (ids,) = segmented(tagged, ["<2de> Haus 🦄"], 1.0)
    pieces = [tagged.pieces()[token] for token in ids]
    unicorn = [f"<0x{byte:02X}>" for byte in "🦄".encode()]
    assert pieces == ["▁", "<2de>", "▁", "H", "a", "u", "s", "▁", *unicorn, "</s>"]


def definition(pieces, symbols, probability):
    """The distribution over the segmentations of a word: Algorithm 1, every choice weighted."""
    pairs = ["".join(pair) for pair in itertools.pairwise(symbols)]
    candidates = sorted((pieces[text], place) for place, text in enumerate(pairs) if text in pieces)
    found = Counter({symbols: probability ** len(candidates)})
    for left_out, (_, place) in enumerate(candidates):
        after = (*symbols[:place], pairs[place], *symbols[place + 2 :])
        share = probability**left_out * (1 - probability)
        for result, chance in definition(pieces, after, probability).items():
            found[result] += share * chance
    return found


@pytest.mark.parametrize("probability", [0.1, 0.4])
def test_segmentations_are_as_frequent_as_algorithm_1_has_them(subwords, probability):
    word = "schläft"
    # A piece that was learned earlier is better, and has a lower id.
    pieces = {piece: token for token, piece in enumerate(subwords.pieces()) if token > 258}
    expected = definition(pieces, tuple(f"▁{word}"), probability)
    assert sum(expected.values()) == pytest.approx(1)
    assert len(expected) > 8
    count = 20_000
    drawn = Counter(map(tuple, segmented(subwords, [word] * count, probability)))
    names = subwords.pieces()
    found = Counter({tuple(names[i] for i in ids[:-1]): n for ids, n in drawn.items()})
    assert found.keys() <= expected.keys()
    likely = {result: chance * count for result, chance in expected.items() if chance * count >= 5}
    chi_square = sum((found[result] - mean) ** 2 / mean for result, mean in likely.items())
    degrees = len(likely)
    # Five standard deviations of chi square.
    assert chi_square < degrees + 5 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("name", ["plain", "ending"])
def test_words_are_segmented_independently_of_each_other(models, name):
    """Of the same sentence, of its neighbours, in other epochs, with other seeds."""
    subwords, count = models[name], 4000
    plain = len(subwords.encode(["green"])[0]) - 1

    def longer(place, seed=1, epoch=0):
        """Whether the word at a place of every sentence has more ids than in plain BPE."""
        found = segmented(subwords, ["green green"] * count, 0.3, seed, epoch)
        numbers = map(subwords.word_marks.numbers, found)
        return np.array([of_line.count(place) > plain for of_line in numbers])

    first = longer(0)
    assert 0.1 < first.mean() < 0.9
    for other in (longer(1), np.roll(first, 1), longer(0, epoch=1), longer(0, seed=2)):
        assert abs(np.corrcoef(first, other)[0, 1]) < 5 / count**0.5


def test_a_segmentation_is_a_function_of_seed_epoch_and_sentence_alone(subwords):
    lines = sentences(300, seed=3)
    whole = segmented(subwords, lines, 0.3, epoch=4)
    assert whole != subwords.encode(lines)
    backwards = range(len(lines))[::-1]
    turned = segmented(subwords, [lines[n] for n in backwards], 0.3, epoch=4, numbers=backwards)
    assert turned[::-1] == whole
    assert segmented(subwords, lines[7:8], 0.3, epoch=4, numbers=[7]) == whole[7:8]
    assert segmented(subwords, lines, 0.3, epoch=5) != whole
    assert segmented(subwords, lines, 0.3, epoch=4, seed=2) != whole
    # A word's segmentation depends neither on the words after it.
    longer = segmented(subwords, [f"{line} Haus" for line in lines], 0.3, epoch=4)
    assert all(long[: len(ids) - 1] == ids[:-1] for long, ids in zip(longer, whole, strict=True))


def test_what_is_remembered_is_bounded_and_forgetting_changes_nothing(subwords, monkeypatch):
    lines = sentences(200, seed=1)
    expected = segmented(subwords, lines, 0.3)
    monkeypatch.setattr(bpe_dropout, "_MOST_WORDS", 3)
    monkeypatch.setattr(bpe_dropout, "_LONGEST_WORD", 6)
    assert segmented(subwords, lines, 0.3) == expected


def test_more_merges_than_two_random_numbers_are_apart(subwords):
    word = "green" * 40
    (plain,) = subwords.encode([word])
    assert BpeMerges(subwords.model_path).merges_in[plain].sum() > bpe_dropout._MOST_MERGES
    assert segmented(subwords, [word] * 3, 0.0) == [plain] * 3


def test_the_draws_are_those_of_earlier_versions(subwords):
    """A run that goes on must see the same text; of the draws alone, whatever is learned."""
    segment = DropoutSegmenter(subwords.model_path, 0.1, (1, 0))
    keys = np.zeros(1, np.uint64)
    for number in (1, 0, 2):
        keys = bpe_dropout._fold(keys, number)
    keys = (keys + np.arange(12, dtype=np.uint64)).astype(np.uint64)
    assert [segment._count_made(keys, draw).tolist() for draw in range(2)] == [
        [43, 27, 1, 6, 2, 25, 24, 14, 8, 4, 19, 8],
        [2, 12, 11, 3, 8, 9, 29, 0, 3, 2, 15, 4],
    ]


def test_each_side_has_random_numbers_of_its_own_or_none(subwords):
    lines = sentences(50)
    block = subwords.encode_block(lines)
    numbers = np.arange(len(lines))
    both = SubwordDropout(0.3).segmenters(shared(subwords), seed=1)
    one, other = (segment(0, numbers, block)[0].tolist() for segment in both if segment)
    assert one != other
    source, target = SubwordDropout(0.3, sides=["target"]).segmenters(shared(subwords), seed=1)
    assert source is None
    assert target
    assert target(0, numbers, block)[0].tolist() == other
    assert SubwordDropout(0.0).segmenters(shared(subwords), seed=1) == (None, None)


def test_only_bpe_of_sentencepiece_has_merges(subwords, tmp_path):
    write(tmp_path / "t2t", VOCABULARY)
    proto = sentencepiece_model_pb2.ModelProto.FromString(subwords.sentencepiece())
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
    (tmp_path / "unigram").write_bytes(proto.SerializeToString())
    for name in ("t2t", "unigram"):
        other = open_subwords(tmp_path / name)
        with pytest.raises(UserError, match=name):
            SubwordDropout(sides=["source"]).segmenters(SubwordPair(other, subwords), 1)
