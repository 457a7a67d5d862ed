"""A model card says what the model directory knows, and no more."""

import pytest

from t2t_repro.analysis.run_record import Evaluation
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.decoding.search import described
from t2t_repro.errors import UserError
from t2t_repro.evaluation.scores import Score
from t2t_repro.formats.marian.model_card import model_card
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import Ancestor, write_ancestry, write_scores

GENERATION = {"num_beams": 4, "length_penalty": 0.5, "max_length": 1074}
CONFIG = """
import my_project.corpora
prepare.corpus = %both
both = @Mixture()
Mixture.corpora = {'news': @news/TfdsCorpus(), 'own': @my_project.corpora.Pairs()}
TfdsCorpus.source_language = 'en'
TfdsCorpus.target_language = 'no'
news/TfdsCorpus.name = 'wmt14_translate/de-en'
news/TfdsCorpus.data_dir = '/home/someone/tfds'
my_project.corpora.Pairs.files = ['~/private/a|b.txt', 'train.`en`']
my_project.corpora.Pairs.more = [('../private/a.en', 'private/a.de'), 'https://x.org/c.gz']
my_project.corpora.Pairs.name = '../private/of'
LayerConfig.d_model = 8
"""


@pytest.fixture(scope="module")
def model():
    model = Transformer(11, 2, LayerConfig(8, 16, 2))
    model.build()
    return model


@pytest.fixture
def directory(tmp_path):
    directory = ModelDirectory(tmp_path)
    directory.operative_config_gin.write_text(CONFIG)
    return directory


def card_of(directory, model, license_name=None):
    return model_card(directory, "averaged/step-9", model, GENERATION, license_name)


def test_corpora_within_others_are_named_without_the_machines_folders(directory, model):
    card = card_of(directory, model)
    assert (
        "- `news/TfdsCorpus`, source_language `'en'`, target_language `'no'`, "
        "name `'wmt14_translate/de-en'`, data_dir `'tfds'`\n"
    ) in card
    assert (
        "- `Pairs`, files `['a|b.txt', 'train.'en'']`, "
        "more `[('a.en', 'a.de'), 'https://x.org/c.gz']`, name `'of'`\n"
    ) in card
    assert "- `Mixture`, corpora" in card
    for of_machine in ("someone", "private", "d_model `", "`both`"):
        assert of_machine not in card


def test_what_the_hub_reads(directory, model):
    beginning = card_of(directory, model, "cc-by-4.0").split("---\n")[1]
    assert beginning == (
        "library_name: transformers\npipeline_tag: translation\n"
        'language:\n- "en"\n- "no"\nlicense: cc-by-4.0\ntags:\n- translation\n- marian\n'
    )


def test_sizes(directory, model):
    card = card_of(directory, model)
    assert f"2 + 2 layers, d_model 8, d_ff 16, 2 heads, {model.count_params():,} para" in card
    assert "checkpoint `averaged/step-9`" in card


def test_scores_are_this_checkpoints_with_signature_and_search(directory, model):
    assert "This checkpoint has not been evaluated." in card_of(directory, model)
    search = described(BeamSearch(5, 0.6))
    scores = [Score("BLEU", 20.468, "nrefs:1|tok:13a"), Score("chrF2", 50.0)]
    of_test = Evaluation("averaged/step-9", 4.0, scores, search)
    write_scores(directory.scores, "test", of_test.as_dict())
    of_dev = Evaluation("best/step-7", 5.0, [Score("BLEU", 99.0)], "Sampling()")
    write_scores(directory.scores, "dev", of_dev.as_dict())
    card = card_of(directory, model)
    assert "| `test` | `BLEU` | 20.47 | `nrefs:1\\|tok:13a` |\n" in card
    assert "| `test` | `chrF2` | 50.00 |  |\n" in card
    assert "with `BeamSearch(beam_size=5, length_penalty=0.6, penalty=wu_penalty)`:" in card
    assert "99.0" not in card
    assert "Sampling" not in card


def test_scores_from_before_searches_were_written_down(directory, model):
    evaluation = Evaluation("averaged/step-9", 4.0, [Score("BLEU", 20.0)]).as_dict()
    del evaluation["search"]
    write_scores(directory.scores, "test", evaluation)
    assert "with a search not recorded:" in card_of(directory, model)


def test_damaged_scores_are_no_card(directory, model):
    write_scores(directory.scores, "test", {"checkpoint": "averaged/step-9"})
    with pytest.raises(UserError, match="holds no evaluation"):
        card_of(directory, model)


def test_ancestors_are_told_without_folders(directory, model):
    assert "Ancestry" not in card_of(directory, model)
    parent = Ancestor("/home/someone/runs/model\n# x", "best/step-2", "ab" * 32, {}, {})
    write_ancestry(directory.ancestry_json, [parent])
    card = card_of(directory, model)
    assert f"- `model # x`, `best/step-2`, SHA-256 of the weights `{'ab' * 32}`\n" in card
    assert "someone" not in card


def test_the_licence_is_told_or_unknown(directory, model):
    assert card_of(directory, model).endswith(
        "## Licence\n\nUnknown: nobody has said under which licence this model, or its data, may "
        "be used.\n"
    )
    assert card_of(directory, model, "mit").endswith("## Licence\n\nmit\n")


@pytest.mark.parametrize("config", [None, "prepare.corpus = (", "", "prepare.corpus = %made"])
def test_a_configuration_that_says_nothing_of_data(config, tmp_path, model):
    if config is not None:
        (tmp_path / "operative_config.gin").write_text(config)
    card = card_of(ModelDirectory(tmp_path), model)
    assert "language:" not in card
    assert ("- `made`\n" in card) == (config is not None and "made" in config)
    assert ("- `made`\n" in card) != ("Not recorded: the model was not trained here." in card)
