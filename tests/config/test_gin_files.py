"""gin files: mistakes are one line before anything is done; includes; the user's own modules."""

import sys
from pathlib import Path

import gin
import pytest

from small_corpus import small_corpus
from t2t_repro import experiment
from t2t_repro.config.gin_files import configure, import_hint
from t2t_repro.config.values import check_value
from t2t_repro.data.batch_shapes import BatchSettings
from t2t_repro.data.preparation import Preparation
from t2t_repro.errors import UserError
from t2t_repro.evaluation.scores import EvaluationSettings
from t2t_repro.model.settings import LayerConfig
from t2t_repro.training.model_for_data import fit_to_data
from t2t_repro.training.schedule import TrainingSchedule
from t2t_repro.training.settings import DevEvaluationSettings, adam
from t2t_repro.training.training_run import train

EXPERIMENT = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('{0}/train.en', '{0}/train.de')
TextFilesCorpus.dev = ('{0}/train.en', '{0}/train.de')
SubwordTraining.vocab_size = 270
Cleaning.drop_held_out = False
Transformer.num_layers = 1
LayerConfig.d_model = 8
LayerConfig.num_heads = 2
adam.learning_rate = 0.001
TrainingSchedule.steps = 1
"""
TWO = "prepare.source_subwords = @source/SubwordTraining()\nsource/SubwordTraining.vocab_size = 275"
UNTIED = "Transformer.tied_embeddings = 'none'"
LEARNED = "Transformer.positional_encoding = 'learned'\nTransformer.max_length = %longest"


@pytest.fixture
def gin_file(tmp_path):
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("abc abc\nacb\n" * 20)
    path = tmp_path / "tiny.gin"
    path.write_text(EXPERIMENT.format(tmp_path))
    return path


def refusal(gin_file, *params):
    """Returns the line with which a training run is refused; nothing is written before it."""
    model_dir, data_dir = gin_file.parent / "model", gin_file.parent / "data"
    with pytest.raises(UserError) as caught:
        train(experiment.read(gin_file, params), experiment.configuration, model_dir, data_dir)
    assert not (model_dir / "model.json").exists()
    assert not data_dir.exists()
    # Command lines print the first line; gin adds others.
    line = str(caught.value).splitlines()[0]
    assert len(line) < 400
    assert " at 0x" not in line
    return line


def test_the_number_of_pairs_decides_only_what_is_not_bound(gin_file, tmp_path):
    sized_by = "train.sized_by = @small_corpus"
    # Every value is one that its parameter takes.
    for pairs in (1, 9_000, 29_000, 68_000, 300_000, 10**7):
        for name, value in small_corpus(pairs).items():
            if name != "train.precision":
                check_value(name, value, float if "dropout" in name or "peak" in name else int)
    experiment.read(gin_file, [sized_by], tmp_path / "data")
    few = LayerConfig()
    assert few.dropout == small_corpus(40)["LayerConfig.dropout"] != 0.1
    assert (few.d_model, TrainingSchedule().steps) == (8, 1)
    # A checkpoint's configuration has it too.
    assert f"LayerConfig.dropout = {few.dropout}" in gin.config_str()
    experiment.read(gin_file, [sized_by, "LayerConfig.dropout = 0.25"], tmp_path / "data")
    assert LayerConfig().dropout == 0.25


@pytest.mark.parametrize(
    ("flags", "precision"),
    [("fma avx2", "float32"), ("avx512_bf16 amx_tile", "mixed_bfloat16"), (None, "float32")],
)
def test_the_processor_decides_the_precision(flags, precision, gin_file, tmp_path, monkeypatch):
    processor = tmp_path / "cpuinfo"
    if flags:
        processor.write_text(f"flags\t\t: {flags}\n")
    monkeypatch.setattr("small_corpus.PROCESSOR", processor)
    params = ["train.sized_by = @small_corpus"]
    assert experiment.read(gin_file, params, tmp_path / "data").train.precision == precision


@pytest.mark.parametrize(
    ("binding", "named"),
    [
        # Names that do not exist.
        ("Tranformer.num_layers = 3", "'Tranformer'"),
        ("Transformer.nun_layers = 3", "'nun_layers'"),
        ("DevEvaluation.metric = @blue", "'blue'"),
        ("TrainingSchedule.steps = ", "Unable to parse value"),
        ("TrainingSchedule.steps = %many", "many is not bound"),
        ("include 'nope.gin'", "nope.gin"),
        ("import no_such_parts", "no_such_parts"),
        # Bindings that nothing reads.
        ("InverseSquareRoot.peak = 1.0", "InverseSquareRoot.peak"),
        ("sorce/SubwordTraining.vocab_size = 90", "sorce/SubwordTraining.vocab_size"),
        # Values.
        ("train.precision = 'float8'", "train.precision is 'float8'"),
        ("LayerConfig.d_model = 9", "LayerConfig.d_model is 9"),
        ("train.callbacks = [@BeamSearch()]", ".callbacks is [BeamSearch("),
        ("TextFilesCorpus.train = 'nowhere.tsv'", "nowhere.tsv"),
        # Of a model without room for the data.
        ("Transformer.vocab_size = 269", "Transformer.vocab_size is 269"),
        (f"{UNTIED}\nTransformer.source_vocab_size = 269", "Transformer.source_vocab_size is 269"),
        (TWO, "bind 'target_softmax' or 'none'"),
        (f"{LEARNED}\nlongest = 50", "Transformer.max_length = 50"),
        (f"{LEARNED}\nlongest = None", "Transformer.max_length"),
        ("train.sized_by = None\nevaluate.metrics = [@bleu()]", "has no ()"),
    ],
)
def test_a_mistake_is_named_in_one_line(gin_file, binding, named):
    assert named in refusal(gin_file, *binding.splitlines())


@pytest.mark.parametrize("missing", ["prepare.corpus", "adam.learning_rate", "TextFilesCorpus.dev"])
def test_what_an_experiment_needs_is_asked_for(gin_file, missing):
    unread = ("TextFilesCorpus",) if missing == "prepare.corpus" else ()
    lines = gin_file.read_text().splitlines(keepends=True)
    gin_file.write_text("".join(one for one in lines if not one.startswith((missing, *unread))))
    assert ("dev" if missing.endswith("dev") else missing) in refusal(gin_file)


@pytest.mark.parametrize(
    ("bindings", "rows"),
    [
        ("", 270),
        ("prepare.subwords = @own/SubwordTraining()\nown/SubwordTraining.vocab_size = 272", 272),
        ("Transformer.vocab_size = %rows\nrows = 301", 301),
    ],
)
def test_a_model_has_a_row_for_every_subword_unless_its_rows_are_bound(gin_file, bindings, rows):
    settings = experiment.read(gin_file, bindings.splitlines())
    assert fit_to_data(settings).model.vocab_size == rows


def test_annotations_of_the_user_s_own_functions_are_checked():
    @gin.configurable
    def free(anything, *, size: "int" = 1, rate: float = 0.5, path: Path | None = None) -> None:
        pass

    for value in ("free.anything = 'a'", "free.size = 2", "free.rate = 1", "free.path = 'a'"):
        configure(None, [value], [free])
    for value in ("True", "None", "'a'"):
        with pytest.raises(UserError, match=f"free.rate is {value}, expected a number"):
            configure(None, [f"free.rate = {value}"], [free])


def test_older_gin_files_need_not_import_what_is_beside_gin_files_now():
    params = ["prepare.corpus = @NoisedSource()", "NoisedSource.corpus = @TfdsCorpus()"]
    params += ["TfdsCorpus.source_language = 'fr'", "DevEvaluation.images = @attention_images"]
    params += ["Batches.segmentation = @SubwordDropout()"]
    configure(None, params, [Preparation, DevEvaluationSettings, BatchSettings])
    assert gin.get_configurable("NoisedSource").__module__ == "noised_source"


def test_later_bindings_win_and_nothing_of_an_earlier_experiment_stays(gin_file):
    params = ["TrainingSchedule.steps = 2", "TrainingSchedule.log_every = 7"]
    schedule = experiment.read(gin_file, params).schedule
    assert (schedule.steps, schedule.log_every) == (2, 7)
    schedule = experiment.read(gin_file).schedule
    assert (schedule.steps, schedule.log_every) == (1, TrainingSchedule.log_every)


def test_what_a_binding_refers_to_counts_as_read():
    params = [
        "evaluate.metrics = [@bleu, @exact_match]",
        "rate = @rate/InverseSquareRoot()",
        "adam.learning_rate = %rate",
        "rate/InverseSquareRoot.peak = %peak",
        "peak = 0.5",
    ]
    configure(None, params, [adam, EvaluationSettings])
    # By the default of evaluate.metrics.
    configure(None, ["chrf.word_order = 2"], [EvaluationSettings])
    unread = [param for param in params if "adam" not in param]
    with pytest.raises(UserError, match=r"binds peak, rate, rate/InverseSquareRoot\.peak, but"):
        configure(None, unread, [adam, EvaluationSettings])


# Includes


def schedule_of(name, *params):
    configure(name, params, [TrainingSchedule])
    return TrainingSchedule().steps, TrainingSchedule().log_every


def test_includes_are_found_from_any_working_directory(tmp_path, monkeypatch):
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "elsewhere"
    (checkout / "gin" / "rows").mkdir(parents=True)
    elsewhere.mkdir()
    # With the mark that editors on Windows put in front of a text.
    (checkout / "gin" / "beside_base.py").touch()
    base = "\ufeffimport beside_base\r\nTrainingSchedule.steps = 5\r\n"
    (checkout / "gin" / "base.gin").write_text(base)
    a = checkout / "gin" / "rows" / "a.gin"
    a.write_text("\ufeffinclude 'gin/base.gin'\r\nTrainingSchedule.log_every = 9\r\n")
    for folder, name in [
        (checkout, "gin/rows/a.gin"),
        (checkout / "gin", "rows/a.gin"),
        (elsewhere, str(a)),
        (elsewhere, "../checkout/gin/rows/a.gin"),
    ]:
        monkeypatch.chdir(folder)
        assert schedule_of(name) == (5, 9)
    # An included file's own includes may lie beside it.
    (elsewhere / "c.gin").write_text(f"include '{a}'\ninclude '{checkout}/gin/d.gin'\n")
    (checkout / "gin" / "d.gin").write_text("include 'rows/a.gin'\n")
    assert schedule_of("c.gin") == (5, 9)
    # The search path of one experiment is not that of the next.
    (elsewhere / "b.gin").write_text("include 'gin/rows/a.gin'\n")
    with pytest.raises(UserError, match=r"gin/rows/a\.gin"):
        schedule_of("b.gin")


def test_an_included_file_may_bind_more_than_is_read(tmp_path, monkeypatch):
    base = "adam.learning_rate = @InverseSquareRoot()\nInverseSquareRoot.peak = 1.0\n"
    (tmp_path / "base.gin").write_text(base)
    path = tmp_path / "mine.gin"
    path.write_text("include 'base.gin'\nadam.learning_rate = 0.1\n")
    monkeypatch.setattr(sys, "path", [])
    configure(path, [], [adam])
    # A user's module counts more than one of the package that has its name.
    assert sys.path[:2] == [str(Path.cwd()), str(tmp_path.resolve())]
    with pytest.raises(UserError, match=r"binds InverseSquareRoot\.peak, but"):
        configure(path, ["InverseSquareRoot.peak = 2.0"], [adam])


def test_an_include_overrides_what_comes_before_it_alone(tmp_path):
    base = "TrainingSchedule.steps = 1\nTrainingSchedule.log_every = 1\n"
    (tmp_path / "base.gin").write_text(base)
    path = tmp_path / "mine.gin"
    after = "include 'base.gin'\nTrainingSchedule.log_every = (\n 2)\n"
    path.write_text(f"TrainingSchedule.steps = 2\n\n{after}")
    assert schedule_of(path) == (1, 2)
    path.write_text("include 'base.gin'\n\nTrainingSchedule.stops = 2\n")
    with pytest.raises(UserError, match=r"mine\.gin, line 3"):
        schedule_of(path)
    path.write_text("include 'base.gin'\n")
    (tmp_path / "base.gin").write_text("include 'mine.gin'\n")
    with pytest.raises(UserError, match="includes itself"):
        schedule_of(path)


def test_the_modules_of_a_training_run_can_be_imported():
    assert "--import=parts --import=a.b" in import_hint("import parts\nimport a.b\nx = 1\n")
    assert import_hint("x = 1\n") == ""


def test_a_bug_in_a_module_keeps_its_traceback(tmp_path, monkeypatch):
    (tmp_path / "has_bug.py").write_text("import no_such_dependency\n")
    (tmp_path / "mine.gin").write_text("import has_bug\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        configure(tmp_path / "mine.gin", [], [])
