"""A corpus made of several: names, tags and shares, in Python and in gin."""

import pytest

from t2t_repro.config.gin_files import configure
from t2t_repro.data.corpora import GeneratedCorpus, Mixture, Reversed, TextFilesCorpus
from t2t_repro.data.corpora.corpus import Corpus, held_out_pairs, parts_of
from t2t_repro.data.preparation import Preparation
from t2t_repro.errors import UserError


def files(folder, name, splits=("train", "dev")):
    given = {}
    for split in splits:
        path = folder / f"{name}.{split}.tsv"
        path.write_text("".join(f"{name} {split} {n}\tziel {n}\n" for n in range(3)))
        given[split] = str(path)
    return TextFilesCorpus(**given)


def test_pairs_come_corpus_after_corpus_with_their_tags(tmp_path):
    mixture = Mixture(
        {"b": files(tmp_path, "news"), "a": Reversed(files(tmp_path, "talks", ("train", "test")))},
        tags={"a": "<2en>  <talk>"},
    )
    assert isinstance(mixture, Corpus)
    assert sorted(mixture.splits) == ["dev", "test", "train"]
    mixture.prepare(tmp_path)
    train = list(mixture.read("train", tmp_path))
    assert train[0] == ("<2en> <talk> ziel 0", "talks train 0")
    assert train[3] == ("news train 0", "ziel 0")
    assert len(list(mixture.read("dev", tmp_path))) == 3
    # What is held out is compared without tags.
    assert ("ziel 2", "talks test 2") in list(held_out_pairs(mixture, tmp_path))
    with pytest.raises(UserError, match="no split 'dev_2'"):
        next(mixture.read("dev_2", tmp_path))


def test_other_shares_are_the_same_data_and_other_tags_are_not(tmp_path):
    a, b = files(tmp_path, "a"), files(tmp_path, "b")
    plain = Mixture({"a": a, "b": b}).describe()
    assert Mixture({"b": b, "a": a}, weights={"a": 1, "b": 3}).describe() == plain
    assert Mixture({"a": a, "b": b}, temperature=5, epoch_sentences=7).describe() == plain
    assert Mixture({"a": a, "b": b}, tags={"a": "<a>"}).describe() != plain
    assert Mixture({"a": b, "b": a}).describe() != plain


def test_a_corpus_by_itself_is_its_own_part():
    corpus = GeneratedCorpus(train_size=3, dev_size=1, test_size=1)
    part = parts_of(corpus)[0]
    assert parts_of(corpus) == [("", corpus, ())]
    assert part.tagged(("a", "b")) == ("a", "b")


def test_reversed_exchanges_the_sides(tmp_path):
    corpus = GeneratedCorpus(train_size=5, dev_size=2, test_size=2)
    other = Reversed(corpus)
    for split in corpus.splits:
        turned = [(source, target) for target, source in other.read(split, tmp_path)]
        assert turned == list(corpus.read(split, tmp_path))
    assert other.describe()["of"] == corpus.describe()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": {"a": 1}}, r"Mixture.weights is of 'a', expected 'a', 'b'"),
        ({"weights": {"a": 1, "c": 1}}, r"is of 'a', 'c', expected 'a', 'b'"),
        ({"weights": {"a": -1, "b": 1}}, r"Mixture.weights is .* each value a number at least 0"),
        ({"weights": {"a": 0, "b": 0}}, "are all 0"),
        ({"weights": {"a": 1, "b": 1}, "temperature": 2.0}, "both bound"),
        ({"temperature": 0.5}, "Mixture.temperature is 0.5, expected a number at least 1"),
        ({"epoch_sentences": 0}, "Mixture.epoch_sentences is 0"),
        ({"tags": {"c": "<c>"}}, "Mixture.tags has 'c', expected some of 'a', 'b'"),
        ({"tags": {"a": "news"}}, "Mixture.tags is 'news', expected letters or digits in br"),
    ],
)
def test_what_cannot_be_meant_is_said(tmp_path, arguments, message):
    corpora = {"a": files(tmp_path, "a"), "b": files(tmp_path, "b")}
    with pytest.raises(UserError, match=message):
        Mixture(corpora, **arguments)


def test_corpora_that_cannot_be_mixed_are_refused(tmp_path):
    one = files(tmp_path, "one")
    for name in ("a.b", "a b", ""):
        with pytest.raises(UserError, match=r"Mixture.corpora"):
            Mixture({name: one})
    for inner in (Mixture({"a": one}), Reversed):
        with pytest.raises(UserError, match=r"is a mixture, expected a single corpus"):
            (inner if inner is Reversed else lambda one: Mixture({"b": one}))(Mixture({"a": one}))


def test_a_mixture_without_dev_sentences_is_refused_before_anything(tmp_path):
    part = files(tmp_path, "a", ("train",))
    with pytest.raises(UserError, match="no split dev, expected train and dev"):
        Preparation(Mixture({"a": part}))
    with pytest.raises(UserError, match="no split dev, expected train and dev"):
        Preparation(part)
    Preparation(Mixture({"a": part, "b": files(tmp_path, "b")}))


LINES = """
prepare.corpus = @Mixture()
Mixture.corpora = {'news': @news/TextFilesCorpus(), 'back': @back/Reversed()}
Mixture.tags = {'back': '<BT>'}
Mixture.weights = {'news': 3, 'back': 1}
news/TextFilesCorpus.train = 'news.train.tsv'
news/TextFilesCorpus.dev = 'news.dev.tsv'
back/Reversed.corpus = @TextFilesCorpus()
back/TextFilesCorpus.train = 'talks.train.tsv'
"""


def bind(*lines):
    configure(None, [*LINES.splitlines(), *lines], ["prepare"], ["prepare"])


def test_gin_gives_every_corpus_its_own_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files(tmp_path, "news")
    files(tmp_path, "talks")
    bind()
    mixture = Preparation().corpus
    assert isinstance(mixture, Mixture)
    assert mixture.splits == ("train", "dev")
    train = list(mixture.read("train", tmp_path))
    assert (train[0], train[3]) == (("<BT> ziel 0", "talks train 0"), ("news train 0", "ziel 0"))
    assert mixture.shares.counts({"back": 5, "news": 3}) == {"back": 2, "news": 6}
    # The tags are the subwords' symbols without being said again.
    assert Preparation().subwords.describe()["symbols"] == ("<BT>",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Mixture.corpora = {'a': @Cleaning()}", r"is .*, each value a Corpus, @name\(\) with"),
        ("Mixture.corpora = {'a': 'news.tsv'}", "each value a Corpus"),
        ("Mixture.corpora = [@TextFilesCorpus()]", "expected a dictionary"),
        ("Mixture.weights = {'news': '3', 'back': 1}", "each value a number"),
        (
            "Mixture.corpora = {'a': @news/TextFilesCorpus(), 'back': @TextFilesCorpus()}",
            "binds back/Reversed.corpus, back/TextFilesCorpus.train, but nothing in this run",
        ),
        (
            "back/Reversed.corpus = @other/TextFilesCorpus()",
            "^other/TextFilesCorpus.train is not bound",
        ),
    ],
)
def test_what_gin_cannot_mean_is_one_line(line, message):
    with pytest.raises(UserError, match=message):
        bind(line)
