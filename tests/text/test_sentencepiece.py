import hashlib
import io
import random

import numpy as np
import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t_repro.errors import UserError
from t2t_repro.text import sentencepiece as sentencepiece_model
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.training import SubwordTraining
from t2t_repro.vocabulary import EOS_ID, NO_WORD, PAD_ID, UNK_ID

WORDS = [
    *("der", "die", "und", "Haus", "Straße", "grün", "Mann", "Frau", "Hund", "läuft", "schläft"),
    *("the", "and", "house", "street", "green", "woman", "dog", "runs", "sleeps", "over", "under"),
    *("12", "345", ",", ".", "!"),
]


def sentences(count=2000, seed=0):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    recipe = SubwordTraining(vocab_size=400)
    return recipe.train(sentences(), tmp_path_factory.mktemp("nfkc") / "subwords.model")


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    recipe = SubwordTraining(vocab_size=400, normalization="identity")
    return recipe.train(sentences(), tmp_path_factory.mktemp("identity") / "subwords.model")


@pytest.fixture(scope="module")
def ending(tmp_path_factory):
    recipe = SubwordTraining(vocab_size=400, word_mark="end", symbols=TAGS)
    return recipe.train(sentences(), tmp_path_factory.mktemp("ending") / "subwords.model")


TAGS = ["<2de>", "[BT]", "⟨ﬁ½⟩"]


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    recipe = SubwordTraining(vocab_size=400, symbols=TAGS)
    return recipe.train(sentences(), tmp_path_factory.mktemp("tagged") / "subwords.model")


any_text = st.text(max_size=40) | st.lists(st.sampled_from([*WORDS, "▁", "⁇", "\n", "  "])).map(
    " ".join
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=any_text)
@pytest.mark.parametrize("model", ["subwords", "identity", "ending"])
def test_any_text_comes_back_as_the_model_normalises_it(model, text, request):
    model = request.getfixturevalue(model)
    (ids,) = model.encode([text])
    assert ids[-1] == EOS_ID
    assert all(UNK_ID < i < model.size for i in ids[:-1])
    assert model.decode(ids) == model.normalize(text)


@pytest.mark.parametrize(
    "text", ["das Haus 🦄 läuft", "한국어 und 日本語", "<s> </s> <unk> <pad> <0x41>", "Hund", ""]
)
def test_clean_text_comes_back_unchanged(subwords, identity, ending, text):
    for model in (subwords, identity, ending):
        assert model.decode(model.encode([text])[0]) == text


def test_symbols_of_several_scripts_are_whole_where_scripts_are_not_split(tmp_path):
    lines = ["NP PRP$ NN /NP", "VP -LRB- Hund -RRB- /VP"] * 50
    for split in (True, False):
        recipe = SubwordTraining(300, normalization="identity", split_scripts=split)
        model = recipe.train(lines, tmp_path / "m")
        for symbol in ("/NP", "PRP$", "-LRB-"):
            (ids,) = model.encode([symbol])
            assert (len(ids) == 2) is not split
            assert model.decode(ids) == symbol


def test_identity_keeps_what_nfkc_rewrites(subwords, identity):
    assert subwords.normalize("… ½ ﬁ") == "... 1⁄2 fi"
    assert identity.normalize("… ½ ﬁ") == "… ½ ﬁ"


def test_a_lone_surrogate_does_not_stop_the_encoding(subwords):
    assert subwords.decode(subwords.encode(["Hund \ud800"])[0]) == "Hund ?"


def test_empty_lines_keep_their_place(subwords):
    assert subwords.encode(["", "  ", "\n"]) == [[EOS_ID]] * 3
    assert subwords.encode([]) == []


# What becomes a space, what vanishes, what joins the character before it, what comes apart.
HOSTILE = [
    *(" ", "  ", "\u00a0", "\u3000", "\t", "\u2028", "\x85", "\x00", "\u200b", "\ufeff", "▁"),
    *("´", "¨", "\u0301", "\u0308", "e", "½", "ﬁ", "ﷺ", "🦄", "한", "\u1112", "\u1161", "\ud800"),
    *(*TAGS, "<", "2de", "BT]"),
]
hostile_text = st.lists(st.sampled_from([*WORDS, *HOSTILE]), max_size=12).map("".join)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(max_size=40) | hostile_text)
@pytest.mark.parametrize("model", ["subwords", "identity", "tagged", "ending"])
def test_a_line_has_the_ids_that_sentencepiece_gives_it_whole(model, text, request):
    model = request.getfixturevalue(model)
    whole = sentencepiece.SentencePieceProcessor(model_file=str(model.model_path))
    line = text.replace("▁", " ").encode("utf-8", errors="replace")
    expected = whole.encode(line, add_eos=True)
    # What is left of no word at all.
    if model.word_marks.at_end and whole.id_to_piece(expected[:-1]) == ["▁"]:
        expected = [EOS_ID]
    assert model.encode([text]) == [expected]


def test_symbols_are_one_subword_each_wherever_they_stand(subwords, tagged):
    assert tagged.size == 400
    for line in ("<2de> der Hund", "<2de> [BT] Hund", "a⟨ﬁ½⟩b [BT]", "<2de>Hund<2de>"):
        (ids,) = tagged.encode([line])
        labels = [piece.strip("▁") for piece in map(tagged.pieces().__getitem__, ids)]
        for tag in TAGS:
            assert labels.count(tag) == line.count(tag)
        # Not even what the rule of normalisation would rewrite.
        assert tagged.decode(ids) == line
    (broken,) = tagged.encode(["<2d e> [B T]"])
    assert not {tagged.pieces()[token] for token in broken} & set(TAGS)


def test_a_recipe_without_symbols_says_what_it_always_did():
    recipe = SubwordTraining(vocab_size=300)
    assert "symbols" not in recipe.describe()
    with_one = recipe.with_symbols(["<a>"]).with_symbols(["<b>", "<a>"])
    assert with_one.symbols == ("<a>", "<b>")
    assert with_one.describe()["symbols"] == ("<a>", "<b>")


@pytest.mark.parametrize(
    "symbol", ["news", "<a b>", "<unk>", "</s>", "<0x41>", "<>", "▁<a>", "<a\n>", f"<{'a' * 99}>"]
)
def test_symbols_that_are_no_text_of_their_own_are_refused(symbol):
    with pytest.raises(UserError, match=r"SubwordTraining.symbols is .*, expected letters or digi"):
        SubwordTraining(symbols=[symbol])


def test_no_character_changes_what_is_beyond_a_space(subwords):
    whole = sentencepiece.SentencePieceProcessor(model_file=str(subwords.model_path))
    # All below the thousands of Han and Hangul characters, and the compatibility forms after them.
    characters = (set(range(0x3400)) | set(range(0xF900, 0x10000))) - {ord("▁")}
    lines = [f"e {chr(c)} {chr(c)}e" for c in sorted(characters)]
    assert subwords.encode(lines) == whole.encode(lines, add_eos=True)


def test_what_is_remembered_is_bounded_and_forgetting_changes_nothing(subwords, monkeypatch):
    monkeypatch.setattr(sentencepiece_model, "_MOST_WORDS", 5)
    monkeypatch.setattr(sentencepiece_model, "_LONGEST_WORD", 4)
    fresh = SentencePieceModel(subwords.model_path)
    lines = sentences(100, seed=1)
    assert fresh.encode(lines) == subwords.encode(lines)
    assert 0 < len(fresh._word_ids) <= 5
    assert max(map(len, fresh._word_ids)) <= 4


def test_a_block_has_the_ids_of_its_lines(subwords):
    lines = ["", *sentences(50, seed=2), "  a  b ", "🦄"]
    ids, lengths = subwords.encode_block(lines)
    assert lengths.sum() == len(ids)
    assert [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] == subwords.encode(
        lines
    )


def test_decoding_stops_at_eos_and_skips_padding(subwords):
    (ids,) = subwords.encode(["der Hund schläft"])
    padded = [PAD_ID, *ids, *ids, PAD_ID]
    assert subwords.decode(padded) == "der Hund schläft"
    assert subwords.decode(np.array(padded, dtype=np.int32)) == "der Hund schläft"
    assert subwords.decode([]) == subwords.decode([EOS_ID, *ids]) == ""


def test_ids_outside_the_vocabulary_are_unknown(subwords):
    (ids,) = subwords.encode(["Hund"])
    for outside in (UNK_ID, subwords.size, subwords.size + 10_000, -1):
        assert subwords.decode([*ids[:-1], outside]) == "Hund ⁇ "


def test_split_digits(tmp_path):
    recipe = SubwordTraining(vocab_size=400, split_digits=True)
    split = recipe.train(sentences(), tmp_path / "digits.model")
    (ids,) = split.encode(["345"])
    model = sentencepiece.SentencePieceProcessor(model_file=str(split.model_path))
    assert [model.id_to_piece(i) for i in ids[-4:-1]] == ["3", "4", "5"]


def test_training_is_deterministic_and_leaves_only_the_model(tmp_path):
    recipe = SubwordTraining(vocab_size=350, sample_size=500)
    first = recipe.train(sentences(), tmp_path / "deep" / "a.model")
    again = recipe.train(sentences(), tmp_path / "deep" / "b.model")
    assert first.model_path.read_bytes() == again.model_path.read_bytes()
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["a.model", "b.model"]


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "identity"])
def test_counted_words_make_the_model_that_their_text_makes(tmp_path, normalization):
    odd = [
        "  two  spaces ",
        "a\u00a0b",
        "x\u3000y ½ ﬁ",
        "…",
        "▁mark▁",
        "e\u0301 \u0301",
        "",
        "한 🦄",
    ]
    corpus = sentences(500) + odd * 5 + ["1,234.5 a-b"] * 9
    made = SubwordTraining(400, normalization=normalization).train(corpus, tmp_path / "a.model")
    plain = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line.replace("▁", " ").encode() for line in corpus),
        model_writer=plain,
        model_type="bpe",
        vocab_size=400,
        character_coverage=0.9999,
        split_digits=False,
        split_by_unicode_script=True,
        normalization_rule_name=normalization,
        byte_fallback=True,
        pad_id=PAD_ID,
        eos_id=EOS_ID,
        unk_id=UNK_ID,
        bos_id=-1,
        max_sentence_length=2**30,
        num_threads=4,
        minloglevel=2,
    )
    # Not ==, whose explanation pytest would take minutes for.
    assert hashlib.sha256(made.model_path.read_bytes()).digest() == (
        hashlib.sha256(plain.getvalue()).digest()
    )


def test_the_sample_is_a_reservoir_whatever_its_order(tmp_path):
    corpus, recipe = sentences(), SubwordTraining(vocab_size=350, sample_size=500, seed=7)
    generator, reservoir = random.Random(7), []
    for count, sentence in enumerate(corpus):
        if count < 500:
            reservoir.append(sentence)
        elif (place := generator.randrange(count + 1)) < 500:
            reservoir[place] = sentence
    found = recipe.train(corpus, tmp_path / "a.model")
    expected = SubwordTraining(vocab_size=350).train(reservoir, tmp_path / "b.model")
    assert found.model_path.read_bytes() == expected.model_path.read_bytes()


def test_the_sample_is_from_the_whole_corpus(tmp_path):
    # All of "b" stands behind the first 200 sentences, which is all that fits in the sample.
    corpus = ["aaaa aaaa"] * 200 + ["bbbb bbbb"] * 200
    recipe = SubwordTraining(vocab_size=264, sample_size=200)
    model = recipe.train(corpus, tmp_path / "s.model")
    assert len(model.encode(["aaaa"])[0]) <= 4
    assert len(model.encode(["bbbb"])[0]) <= 4


def test_a_very_long_sentence_is_learned_from(tmp_path):
    model = SubwordTraining(vocab_size=262).train(["zzzz " * 20_000], tmp_path / "l.model")
    assert len(model.encode(["zzzz"])[0]) == len(["▁", "zz", "zz", EOS_ID])


def test_the_largest_possible_vocabulary_is_named_and_works(tmp_path):
    with pytest.raises(
        UserError, match=r"SubwordTraining.vocab_size is 37000.* for (\d+)"
    ) as error:
        SubwordTraining().train(sentences(), tmp_path / "m.model")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
    largest = int(str(error.value).split(" text for ")[1].split(";")[0])
    model = SubwordTraining(vocab_size=largest).train(sentences(), tmp_path / "m.model")
    assert model.size == largest
    with pytest.raises(UserError):
        SubwordTraining(vocab_size=largest + 1).train(sentences(), tmp_path / "m.model")
    assert SentencePieceModel(tmp_path / "m.model").size == largest


@pytest.mark.parametrize(
    ("recipe", "corpus", "message"),
    [
        (SubwordTraining(vocab_size=100), ["Hund"], r"need \d+; set SubwordTraining.vocab_size"),
        (SubwordTraining(), [], "no text to learn from"),
        (SubwordTraining(), ["", " "], "no text to learn from"),
    ],
)
def test_what_cannot_be_trained_says_why(tmp_path, recipe, corpus, message):
    with pytest.raises(UserError, match=message):
        recipe.train(corpus, tmp_path / "m.model")


def test_what_is_no_model_says_so(tmp_path):
    with pytest.raises(UserError, match="no subword model at"):
        SentencePieceModel(tmp_path / "nowhere.model")
    (tmp_path / "garbage.model").write_text("garbage")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        SentencePieceModel(tmp_path / "garbage.model")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "expected .0, 1, 2. and no BOS"),
        ({"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}, "no ids for bytes"),
        (
            {
                **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "byte_fallback": True},
                **{"split_by_whitespace": False, "vocab_size": 400},
            },
            "span a space",
        ),
    ],
)
def test_a_foreign_model_is_refused(tmp_path, settings, message):
    with open(tmp_path / "foreign.model", "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences()),
            model_writer=file,
            model_type="bpe",
            minloglevel=2,
            **{"vocab_size": 80, **settings},
        )
    with pytest.raises(UserError, match=message):
        SentencePieceModel(tmp_path / "foreign.model")


def test_subwords_are_named_as_a_reader_knows_them(tmp_path):
    SubwordTraining(vocab_size=290).train(["the red bird sees a tree"] * 9, tmp_path / "model")
    subwords = SentencePieceModel(tmp_path / "model")
    (ids,) = subwords.encode(["the redtree é q <s>"])
    names = subwords.labels(ids)
    assert len(names) == len(ids)
    assert names[:2] == ["the", "red"]
    assert "".join(names[1:]).startswith("red##t")
    assert names[-1] == "<EOS>"
    # A character of its own that the vocabulary lacks is spelled in bytes.
    at = names.index("<0xC3>")
    assert names[at - 1 : at + 2] == ["\u2581", "<0xC3>", "<0xA9>"]
    assert subwords.labels([UNK_ID]) == ["<unk>"]


def test_a_word_by_itself_and_the_end_of_a_compound_are_one_subword(tmp_path):
    lines = ["der Hund sieht einen Schäferhund", "Hundehütte und Haushund"] * 9
    folded = [line.lower() for line in lines]
    recipe = SubwordTraining(vocab_size=300, word_mark="end")
    assert recipe.describe()["word_mark"] == "end"
    subwords = recipe.train(folded, tmp_path / "model")
    texts = ["hund", "xhund hund", "hundx q"]
    ids, longer, other = subwords.encode(texts)
    assert len(ids) == 2
    assert longer.count(ids[0]) == 2
    assert ids[0] not in other
    assert subwords.labels(longer) == ["<0x78>", "##hund", "hund", "<EOS>"]
    assert subwords.word_numbers(texts[1], longer) == [0, 0, 1, NO_WORD]
    assert subwords.word_numbers(texts[2], other)[-4:-1] == [0, 1, 1]
    assert subwords.labels(other)[-2:] == ["\u2581", "<EOS>"]


def test_a_recipe_that_marks_the_start_says_what_it_always_did():
    assert "word_mark" not in SubwordTraining(vocab_size=300).describe()
