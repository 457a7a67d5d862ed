"""What gin refuses, and what it lets through: each mistake is one line, before anything is done."""

import json
from pathlib import Path

import gin
import pytest

from t2t_repro import experiment
from t2t_repro.config.checks import differing_bindings, differing_values
from t2t_repro.config.gin_files import configure
from t2t_repro.errors import UserError
from t2t_repro.training.model_for_data import configured_preparation, new_model
from t2t_repro.training.train_loop import TrainingSchedule

EXPERIMENT = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('{0}/train.en', '{0}/train.de')
TextFilesCorpus.dev = ('{0}/train.en', '{0}/train.de')
SubwordTraining.vocab_size = 270
Cleaning.drop_held_out = False
Transformer.vocab_size = 300
Transformer.num_layers = 1
LayerConfig.d_model = 8
LayerConfig.num_heads = 2
adam.learning_rate = 0.001
TrainingSchedule.steps = 1
"""


@pytest.fixture(autouse=True)
def _no_configuration_is_left_behind():
    yield
    gin.clear_config()


@pytest.fixture
def gin_file(tmp_path):
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("abc abc\nacb\n" * 20)
    path = tmp_path / "tiny.gin"
    path.write_text(EXPERIMENT.format(tmp_path))
    return path


def refusal(gin_file, params=()):
    """The error that a training run ends with; nothing may have been written before it."""
    model_dir, data_dir = gin_file.parent / "model", gin_file.parent / "data"

    def run():
        experiment.configure_experiment(gin_file, params, needed=experiment.TRAINING_ROOTS)
        experiment.train(model_dir, data_dir)

    with pytest.raises(UserError) as caught:
        run()
    assert not (model_dir / "model.json").exists()
    assert not data_dir.exists()
    # What the command line prints.
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("Tranformer.num_layers = 3", "No configurable matching 'Tranformer'"),
        ("TrainingSchedule.stops = 3", "'TrainingSchedule' doesn't have a parameter named 'stops'"),
        ("Transformer.nun_layers = 3", "'Transformer' doesn't have a parameter named 'nun_layers'"),
        ("InverseSquareRoot.peak = 1.0", "binds InverseSquareRoot.peak, but nothing"),
        ("my_steps = 3", "binds my_steps, but nothing"),
        # A macro that has the name of what is called, and a scope in which nothing is.
        ("train = 5", "binds train, but nothing"),
        ("sorce/SubwordTraining.vocab_size = 90", "binds sorce/SubwordTraining.vocab_size, but"),
        ("it/train.seed = 2", "binds it/train.seed, but nothing"),
        ("TrainingSchedule.steps = %my_steps", "No bindings specified for 'my_steps"),
        ("DevEvaluation.metric = @blue", "No configurable matching reference '@blue'"),
        ("TrainingSchedule.steps = ", "Unable to parse value"),
        (
            "TrainingSchedule.steps = ten",
            "gin: 'ten' is not a value; a text needs quotes (--gin_param, line 1)",
        ),
        ("train.precision = 'float8'", "train.precision is 'float8', expected"),
        ("LayerConfig.d_model = 9", "LayerConfig.d_model is 9, expected an even number"),
        (
            "choose_strategy.cpu_replicas = 'two'",
            "choose_strategy.cpu_replicas is 'two', expected an",
        ),
        (
            "TrainingSchedule.steps = 10.5",
            "TrainingSchedule.steps is 10.5, expected an integer at least 1",
        ),
        (
            "TrainingSchedule.patience = '3'",
            "TrainingSchedule.patience is '3', expected an integer at least 1",
        ),
        ("train.seed = %a\na = %b\nb = 'x'", "train.seed is 'x', expected an integer at"),
        ("train.deterministic = 1", "train.deterministic is 1, expected True or False."),
        (
            "DevEvaluation.metric = 'bleu'",
            "metric is 'bleu', expected a function or class, @name",
        ),
        ("prepare.corpus = 'wmt'", "prepare.corpus is 'wmt', expected a Corpus, @name() with"),
        ("TextFilesCorpus.train = 3", "TextFilesCorpus.train is 3, expected a text or a list."),
        ("TextFilesCorpus.train = 'nowhere.tsv'", "cannot read nowhere.tsv"),
        ("Cleaning.max_words = 0", "Cleaning.max_words is 0, expected an integer at least 1"),
        ("Transformer.vocab_size = 'many'", "'many'"),
    ],
)
def test_a_mistake_is_named_in_one_line_before_anything_is_done(gin_file, binding, message):
    line = refusal(gin_file, [binding])
    assert message in line
    # gin would add the whole configuration, or the addresses of its functions.
    assert len(line) < 400
    assert " at 0x" not in line


@pytest.mark.parametrize(
    "missing",
    ["prepare.corpus", "adam.learning_rate", "TextFilesCorpus.train"],
)
def test_what_an_experiment_needs_is_asked_for(gin_file, missing):
    drop_lines(gin_file, missing, *["TextFilesCorpus"] * (missing == "prepare.corpus"))
    assert f"{missing} is not bound, but this run needs it: add" in refusal(gin_file)


def test_a_corpus_without_dev_is_refused(gin_file):
    drop_lines(gin_file, "TextFilesCorpus.dev")
    assert "prepare.corpus has no split dev, expected train and dev" in refusal(gin_file)


def drop_lines(gin_file, *beginnings):
    lines = gin_file.read_text().splitlines(keepends=True)
    gin_file.write_text("".join(line for line in lines if not line.startswith(beginnings)))


def test_a_missing_file_is_named(tmp_path):
    assert f"{tmp_path / 'no.gin'}: no such file" in refusal(tmp_path / "no.gin")


def test_a_missing_include_is_named_with_the_line_that_asks_for_it(gin_file):
    gin_file.write_text(gin_file.read_text() + "include 'nope.gin'\n")
    line = refusal(gin_file)
    assert "tiny.gin, line 13 includes nope.gin, which does not exist" in line


def test_an_embedding_without_room_for_the_data_is_refused_before_they_are_prepared(gin_file):
    message = "Transformer.vocab_size is 269, but the subword model has 270 entries"
    assert message in refusal(gin_file, ["Transformer.vocab_size = 269"])
    untied = ["Transformer.tied_embeddings = 'none'", "Transformer.source_vocab_size = 269"]
    message = "Transformer.source_vocab_size is 269, but the subword model has 270 entries"
    assert message in refusal(gin_file, untied)
    two = ["prepare.source_subwords = @source/SubwordTraining()",
           "source/SubwordTraining.vocab_size = 275"]  # fmt: skip
    for tied in ("all", "source_target"):
        message = f"vocabulary of its own, but Transformer.tied_embeddings = '{tied}' has it share"
        bound = [*two, f"Transformer.tied_embeddings = '{tied}'"]
        assert message in refusal(gin_file, bound)
    assert "bind Transformer.tied_embeddings = 'target_softmax' or 'none'" in refusal(gin_file, two)
    message = "Transformer.source_vocab_size is 274, but the subword model has 275 entries"
    untied[1] = "Transformer.source_vocab_size = 274"
    assert message in refusal(gin_file, [*untied, *two])
    untied[1] = "Transformer.source_vocab_size = None"
    message = "Transformer.source_vocab_size is 272, but the subword model has 275 entries"
    assert message in refusal(gin_file, [*untied, *two, "Transformer.vocab_size = 272"])
    learned = [
        "Transformer.positional_encoding = 'learned'",
        "Transformer.max_length = %longest",
        "longest = 50",
    ]
    message = "Transformer.max_length is 50, but the data have sentences of up to 256 subwords"
    assert message in refusal(gin_file, learned)
    # The data's own verb says so too.
    experiment.configure_experiment(gin_file, learned)
    with pytest.raises(UserError, match=message):
        experiment.prepare_data(gin_file.parent / "data")
    assert not (gin_file.parent / "data").exists()


def test_a_model_has_a_row_for_every_subword_unless_its_rows_are_bound(gin_file, tmp_path):
    """One binding; and the recipe that `prepare` is given counts, wherever it is bound."""
    text = "".join(
        line for line in EXPERIMENT.splitlines(True) if not line.startswith("Transformer.vocab")
    ).format(tmp_path)
    own_recipe = "prepare.subwords = @own/SubwordTraining()\nown/SubwordTraining.vocab_size = 272\n"
    for rest, rows in (
        ("", 270),
        (own_recipe, 272),
        ("Transformer.vocab_size = 300\n", 300),
        (f"Transformer.vocab_size = %rows\nrows = 301\n{own_recipe}", 301),
    ):
        gin_file.write_text(text + rest)
        experiment.configure_experiment(gin_file, [], needed=experiment.TRAINING_ROOTS)
        assert new_model(configured_preparation(), "float32").vocab_size == rows
    # The last one's data have fewer subwords than its model has rows.
    experiment.train(tmp_path / "model", tmp_path / "data")
    assert json.loads((tmp_path / "model" / "model.json").read_text())["vocab_size"] == 301


def test_impossible_batches_are_one_line(gin_file):
    experiment.configure_experiment(gin_file, ["Batches.tokens_per_batch = 2"])
    with pytest.raises(UserError) as caught:
        experiment.train(gin_file.parent / "model", gin_file.parent / "data")
    assert "of 2 tokens has no room for" in str(caught.value).splitlines()[0]
    assert not (gin_file.parent / "model" / "model.json").exists()


def test_values_of_a_parameter_s_type_and_of_unknown_types_are_taken():
    @gin.configurable
    def free(anything, *, size: "int" = 1, rate: float = 0.5, path: Path | None = None) -> None:
        pass

    for value in ("free.anything = 'a'", "free.size = 2", "free.rate = 1", "free.path = 'a'"):
        configure(None, [value], ["free"])
    for value in ("True", "None", "'a'"):
        with pytest.raises(UserError, match=f"free.rate is {value}, expected a number"):
            configure(None, [f"free.rate = {value}"], ["free"])


def test_later_bindings_win_and_nothing_of_an_earlier_configuration_stays(tmp_path):
    (tmp_path / "a.gin").write_text("TrainingSchedule.steps = 1\nTrainingSchedule.log_every = 7\n")
    (tmp_path / "b.gin").write_text("TrainingSchedule.steps = 3\n")
    configure(tmp_path / "a.gin", ["TrainingSchedule.steps = 2"], ["TrainingSchedule"])
    assert (TrainingSchedule().steps, TrainingSchedule().log_every) == (2, 7)
    configure(tmp_path / "b.gin", [], ["TrainingSchedule"])
    assert (TrainingSchedule().steps, TrainingSchedule().log_every) == (3, 50)
    configure(None, [], ["TrainingSchedule"])
    assert TrainingSchedule().steps == 100_000


def test_what_a_binding_refers_to_counts_as_used():
    params = [
        "evaluate.metrics = [@bleu, @exact_match]",
        "rate = @rate/InverseSquareRoot()",
        "adam.learning_rate = %rate",
        "rate/InverseSquareRoot.peak = %peak",
        "peak = 0.5",
    ]
    configure(None, params, ["adam", "evaluate"])
    with pytest.raises(UserError, match=r"binds peak, rate, rate/InverseSquareRoot\.peak, but"):
        configure(None, [param for param in params if "adam" not in param], ["adam", "evaluate"])


def test_includes_are_found_from_any_working_directory(tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    (checkout / "gin" / "rows").mkdir(parents=True)
    (checkout / "gin" / "base.gin").write_text("TrainingSchedule.steps = 5\n")
    (checkout / "gin" / "rows" / "a.gin").write_text(
        "include 'gin/base.gin'\nTrainingSchedule.log_every = 9\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for folder, name in [
        (checkout, "gin/rows/a.gin"),
        (checkout / "gin", "rows/a.gin"),
        (elsewhere, str(checkout / "gin" / "rows" / "a.gin")),
        (elsewhere, "../checkout/gin/rows/a.gin"),
    ]:
        monkeypatch.chdir(folder)
        configure(name, [], ["TrainingSchedule"])
        assert (TrainingSchedule().steps, TrainingSchedule().log_every) == (5, 9)
    # The search path of one experiment is not that of the next.
    (elsewhere / "b.gin").write_text("include 'gin/rows/a.gin'\n")
    with pytest.raises(UserError, match=r"includes gin/rows/a\.gin, which does not exist"):
        configure("b.gin", [], ["TrainingSchedule"])


def test_an_included_file_may_bind_more_than_the_experiment_uses(tmp_path):
    (tmp_path / "base.gin").write_text(
        "adam.learning_rate = @InverseSquareRoot()\nInverseSquareRoot.peak = 1.0\n"
    )
    path = tmp_path / "mine.gin"
    path.write_text("include 'base.gin'\nadam.learning_rate = 0.1\n")

    @gin.configurable
    def plain_optimizer():
        pass

    configure(path, [], ["train"])
    with pytest.raises(UserError, match=r"binds InverseSquareRoot\.peak, but"):
        configure(path, ["InverseSquareRoot.peak = 2.0"], ["train"])
    with pytest.raises(UserError, match=r"binds adam\.learning_rate, but"):
        configure(path, ["train.optimizer = @plain_optimizer"], ["train"])


def test_bindings_before_an_include_are_overridden_by_it_and_those_behind_are_not(tmp_path):
    (tmp_path / "base.gin").write_text(
        "TrainingSchedule.steps = 1\nTrainingSchedule.log_every = 1\n"
    )
    path = tmp_path / "mine.gin"
    path.write_text(
        "TrainingSchedule.steps = 2\n\ninclude 'base.gin'\nTrainingSchedule.log_every = (\n 2)\n"
    )
    configure(path, [], ["TrainingSchedule"])
    assert (TrainingSchedule().steps, TrainingSchedule().log_every) == (1, 2)
    path.write_text("include 'base.gin'\n\nTrainingSchedule.stops = 2\n")
    with pytest.raises(UserError, match=r'named .stops.\. In file ".*mine.gin", line 3'):
        configure(path, [], ["TrainingSchedule"])
    path.write_text("include 'mine.gin'\n")
    with pytest.raises(UserError, match=r"mine.gin, line 1 includes mine.gin, which includes it"):
        configure(path, [], ["TrainingSchedule"])


def test_a_module_that_is_not_there_is_one_line_and_a_bug_in_one_is_none(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "has_bug.py").write_text("import no_such_dependency\n")
    for name in ("no_such_parts", "xml.no_such_parts"):
        with pytest.raises(UserError, match=f"there is no module {name}; "):
            configure(None, [f"import {name}"], [])
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        configure(None, ["import has_bug"], [])


def test_what_two_configurations_bind_differently():
    there = "# For train:\ntrain.seed = 1\nBatches.max_shapes = 12\nA.files = \\\n  [('a', 'b')]\n"
    now = "train.seed = 2\nA.files = [('a', 'b')]\nTrainingSchedule.steps = 9\n"
    assert differing_bindings(there, now) == [
        "Batches.max_shapes 12 there, not bound now",
        "TrainingSchedule.steps not bound there, 9 now",
        "train.seed 1 there, 2 now",
    ]
    assert differing_bindings(there, there) == []


def test_what_two_descriptions_have_differently():
    there = {"a": 1, "b": {"c": [1, {"sha": "0" * 64}]}, "d": [1]}
    now = {"a": 1, "b": {"c": [1, {"sha": "1" * 64}]}, "d": [1, 2]}
    assert differing_values(there, now) == [
        f"b.c.1.sha '{'0' * 23}...{'0' * 7}' there, '{'1' * 23}...{'1' * 7}' now",
        "d.1 None there, 2 now",
    ]
    assert differing_values(there, there) == []
