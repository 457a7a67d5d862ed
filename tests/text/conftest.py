"""SentencePiece models that several tests share."""

import random

import pytest

from t2t_repro.text.training import SubwordTraining
from tests.text.odd_text import TAGS, sentences

RECIPES = {
    "plain": SubwordTraining(vocab_size=400),
    "identity": SubwordTraining(vocab_size=400, normalization="identity"),
    "tagged": SubwordTraining(vocab_size=400, symbols=TAGS),
    "ending": SubwordTraining(400, normalization="nmt_nfkc", symbols=TAGS, word_mark="end"),
}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The models of `RECIPES`, by name."""
    folder = tmp_path_factory.mktemp("models")
    return {name: recipe.train(sentences(), folder / name) for name, recipe in RECIPES.items()}


@pytest.fixture(scope="session", params=RECIPES)
def any_model(request, models):
    return models[request.param]


@pytest.fixture(scope="session")
def subwords(models):
    return models["plain"]


@pytest.fixture(scope="session")
def random_lines():
    """Texts of all of Unicode, and the first 4,096 characters each alone."""
    generator = random.Random(1)
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = []
    for _ in range(500):
        some = generator.choices(characters[:0x300], k=6) + generator.choices(characters, k=3)
        generator.shuffle(some)
        texts.append(" ".join(("".join(some[:4]), "".join(some[4:]))))
    return [*texts, *characters[:0x1000], *characters[::3001]]
