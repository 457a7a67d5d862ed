"""A corpus made of several: names, tags and shares, in Python and in gin."""

import pytest

from t2t_repro.data.corpora import Mixture, Reversed, TextFilesCorpus
from t2t_repro.data.corpora.corpus import Corpus, held_out_pairs
from t2t_repro.data.preparation import Preparation
from t2t_repro.errors import UserError


def files(folder, name, splits=("train", "dev")):
    given: dict[str, str] = {}
    for split in splits:
        path = folder / f"{name}.{split}.tsv"
        path.write_text("".join(f"{name} {split} {n}\tziel {n}\n" for n in range(3)))
        given[split] = str(path)
    return TextFilesCorpus(given["train"], given.get("dev"), given.get("test"))


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": {"a": 1}}, r"Mixture.weights is of 'a', expected 'a', 'b'"),
        ({"weights": {"a": -1, "b": 1}}, r"Mixture.weights is .* each value a number at least 0"),
        ({"weights": {"a": 1, "b": 1}, "temperature": 2.0}, "both bound"),
        ({"tags": {"a": "news"}}, "Mixture.tags is 'news', expected letters or digits in br"),
    ],
)
def test_what_cannot_be_meant_is_said(tmp_path, arguments, message):
    corpora = {"a": files(tmp_path, "a"), "b": files(tmp_path, "b")}
    with pytest.raises(UserError, match=message):
        Mixture(corpora, **arguments)


def test_corpora_that_cannot_be_mixed_are_refused(tmp_path):
    one = files(tmp_path, "one")
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
