"""A model card says what the model directory knows, without paths of the machine."""

import pytest

from t2t_repro.formats.hugging_face.model_card import model_card
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import Ancestor, write_ancestry, write_scores

GENERATION = {"num_beams": 4, "length_penalty": 0.5, "max_length": 1074}
CONFIG = """
prepare.corpus = @Mixture()
Mixture.corpora = {'news': @news/TfdsCorpus(), 'own': @TextFilesCorpus()}
TfdsCorpus.source_language = 'en'
TfdsCorpus.target_language = 'no'
news/TfdsCorpus.name = 'wmt14_translate/de-en'
news/TfdsCorpus.data_dir = '/home/someone/tfds'
TextFilesCorpus.train = '/home/someone/train.tsv'
"""


@pytest.fixture(scope="module")
def model():
    model = Transformer(11, 3, LayerConfig(8, 16, 2), num_decoder_layers=2)
    model.build()
    return model


def card_of(folder, model, license_name=None):
    directory = ModelDirectory(folder)
    return model_card(directory, "averaged/step-9", model, GENERATION, license_name)


def test_a_directory_that_knows_nothing(tmp_path, model):
    card = card_of(tmp_path, model)
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "language:" not in card
    assert "license:" not in card
    assert f"3 + 2 layers, d_model 8, d_ff 16, 2 heads, {model.count_params():,} para" in card
    assert "## Data\n\nNot recorded." in card
    assert "has not been evaluated" in card
    assert "at random" in card
    assert card.endswith("## Licence\n\nUnknown.\n")
    assert "{" not in card


def test_corpora_languages_scores_ancestors_and_licence(tmp_path, model):
    (tmp_path / "operative_config.gin").write_text(CONFIG)
    for split, checkpoint, value in (("test", "averaged/step-9", 20.468), ("dev", "best/1", 99.0)):
        scores = [
            {"name": "BLEU", "value": value, "signature": "nrefs:1|tok:13a"},
            {"name": "chrF2", "value": value, "signature": ""},
        ]
        search = f"BeamSearch({split})"
        evaluation = {"checkpoint": checkpoint, "scores": scores, "search": search}
        write_scores(tmp_path / "scores", split, evaluation)
    ancestor = Ancestor("/home/someone/model\n# x", "best/step-2", "ab" * 32, {}, {})
    write_ancestry(tmp_path / "ancestry.json", [ancestor])
    card = card_of(tmp_path, model, "cc-by-4.0")
    assert 'language:\n- "en"\n- "no"\nlicense: cc-by-4.0\ntags:' in card
    assert "- `news/TfdsCorpus`, name `wmt14_translate/de-en`\n" in card
    assert "- `TfdsCorpus`, source_language `en`, target_language `no`\n" in card
    assert "- `TextFilesCorpus`\n" in card
    assert "| `test` | `BeamSearch(test)` | `BLEU` | 20.47 | `nrefs:1\\|tok:13a` |\n" in card
    assert "| `test` | `BeamSearch(test)` | `chrF2` | 20.47 |  |\n" in card
    assert "99.0" not in card
    assert f"- `model # x`, `best/step-2`, SHA-256 of the weights `{'ab' * 32}`\n" in card
    assert card.endswith("## Licence\n\ncc-by-4.0\n")
    assert "someone" not in card
