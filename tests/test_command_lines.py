"""A user's mistake at any command line: status 2, one line that names it, nothing left behind."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack

import gin
import pytest

from t2t_repro.analysis.run_record import Evaluation
from t2t_repro.analysis.table_3_csv import as_csv
from t2t_repro.command_line.text_lines import write_output
from t2t_repro.data.batches import EpochReport
from t2t_repro.data.cleaning import Cleaning
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.prepared import Preparation
from t2t_repro.errors import UserError, storage_error
from t2t_repro.files import exclusive_lock
from t2t_repro.model.layer_config import LayerConfig
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.text.sentencepiece import SentencePieceModel, SubwordTraining
from t2t_repro.text.subword_model import shared
from t2t_repro.text.t2t import T2TSubwords
from t2t_repro.training.checkpoints import Checkpoints
from t2t_repro.training.optimizer import adam
from t2t_repro.training.run_state import RunState
from tests.analysis.test_ablation_report import seeds
from tests.commands import outcomes_of
from tests.formats.tensor2tensor.test_checkpoint import VOCAB, t2t_variables, write_checkpoint
from tests.processes import CHECKOUT

GIN = """
prepare.corpus = @TextFilesCorpus()
TextFilesCorpus.train = ('train.en', 'train.de')
TextFilesCorpus.dev = ('train.en', 'train.de')
SubwordTraining.vocab_size = 300
LayerConfig.d_model = 8
LayerConfig.num_heads = 2
adam.learning_rate = 0.001
"""


TREES_GIN = """
prepare.corpus = @TreebankCorpus()
TreebankCorpus.train = 'bad.mrg'
TreebankCorpus.dev = 'bad.mrg'
"""


CASES: dict[str, tuple[str, list[str], str]] = {
    "unknown flag": ("trainer", ["--gin_flie=x.gin"], "Unknown command line flag 'gin_flie'"),
    "bad value": ("average", ["--model_dir=model", "--last=five"], "flag --last=five"),
    "flag left out": ("translate", [], "error: --model_dir is missing: see --help."),
    "flag nearly right": ("trainer", ["--gin_fil=x.gin"], "Did you mean: gin_file?: see --help."),
    "no flag at all": ("translate", ["--model_dir=model", "a.txt"], "the argument 'a.txt'"),
    "gin file missing": ("datagen", ["--gin_file=no.gin"], "--gin_file=no.gin: no such file"),
    "gin misspelt": (
        "trainer",
        ["--gin_file=x.gin", "--gin_param=TrainingSchedule.stops = 1"],
        "'TrainingSchedule' doesn't have a parameter named 'stops'",
    ),
    "keras argument misspelt": (
        "trainer",
        ["--gin_file=x.gin", "--gin_param=Transformer.nun_layers = 1"],
        "'Transformer' doesn't have a parameter named 'nun_layers'",
    ),
    "corpus misaligned": (
        "datagen",
        ["--gin_file=x.gin"],
        "train.en has 3 lines, train.de has 2 lines: line 3 has no partner",
    ),
    "model in training": (
        "trainer",
        ["--gin_file=x.gin", "--model_dir=trained", "--data_dir=no_data"],
        "trained is in use by process",
    ),
    "model being averaged": (
        "average",
        ["--model_dir=model", "--last=1"],
        "model/averaged is in use by process",
    ),
    "import under way": (
        "import_t2t",
        ["--checkpoint=t2t", "--vocabulary=t2t.vocab", "--model_dir=coming"],
        "coming is in use by process",
    ),
    "export under way": (
        "export",
        ["--model_dir=model", "--export_dir=exported"],
        "exported is in use by process",
    ),
    "export to CTranslate2 under way": (
        "export",
        ["--model_dir=model", "--export_dir=expected", "--format=ctranslate2"],
        "expected is in use by process",
    ),
    "model missing": ("translate", ["--model_dir=nowhere"], "nowhere is no model directory"),
    "model to average missing": ("average", ["--model_dir=nowhere"], "nowhere is no model"),
    "too few to average": ("average", ["--model_dir=model", "--last=3"], "which holds 1"),
    "checkpoint missing": (
        "translate",
        ["--model_dir=model", "--checkpoint=averaged"],
        "no checkpoint averaged in model",
    ),
    "checkpoint misspelt": (
        "evaluate",
        ["--model_dir=model", "--checkpoint=checkpoints/step-8", "--source=a", "--reference=a"],
        "no checkpoint checkpoints/step-8",
    ),
    "input missing": (
        "translate",
        ["--model_dir=model", "--input=no.txt", "--output=x"],
        "--input=no.txt: No such file or directory",
    ),
    "input a folder": ("translate", ["--model_dir=model", "--input=model"], "Is a directory"),
    "input not UTF-8": (
        "translate",
        ["--model_dir=model", "--input=latin.txt", "--output=x"],
        "latin.txt, line 2: byte 0xe9 at position 3 is not valid UTF-8",
    ),
    "export to Hugging Face under way": (
        "export",
        ["--model_dir=model", "--export_dir=expected", "--format=hugging_face"],
        "expected is in use by process",
    ),
    "signature that transformers lack": (
        "export",
        [
            *("--model_dir=model", "--export_dir=new", "--format=hugging_face"),
            "--add_signature=sample",
        ],
        "--add_signature=sample with --format=hugging_face, which has no signatures: leave it out",
    ),
    "signature of no SavedModel": (
        "export",
        [
            *("--model_dir=model", "--export_dir=exported/new", "--format=ctranslate2"),
            "--add_signature=prefix",
        ],
        "--add_signature=prefix with --format=ctranslate2, which has no signatures: leave it out",
    ),
    "beginnings of other lines": (
        "translate",
        ["--model_dir=model", "--input=train.de", "--prefix=train.en", "--output=x"],
        "train.en has 3 lines: expected files in which line n belongs to line n",
    ),
    "n_best beyond the beam": (
        "translate",
        ["--model_dir=model", "--n_best=3", "--output=x"],
        "--n_best=3: expected 1 to the beam size, 2",
    ),
    "output nowhere": (
        "translate",
        ["--model_dir=model", "--output=no/where/x"],
        "--output=no/where/x: No such file or directory",
    ),
    "alignments alone": (
        "translate",
        ["--model_dir=model", "--alignments=x"],
        "--alignments says nothing without translations: give --output too",
    ),
    "alignments in place of translations": (
        "translate",
        ["--model_dir=model", "--output=x", "--alignments=./x"],
        "--alignments and --output are one file",
    ),
    "alignments of several models": (
        "translate",
        ["--model_dir=model", "--output=x", "--alignments=y", "--ensemble=model"],
        "--alignments asks one model, --ensemble several",
    ),
    "alignments nowhere": (
        "translate",
        ["--model_dir=model", "--output=x", "--alignments=no/where/y"],
        "--alignments=no/where/y: No such file or directory",
    ),
    "output a folder": (
        "translate",
        ["--model_dir=model", "--output=exported"],
        "--output=exported: expected a file; leave --output out for standard output",
    ),
    # As root, one would put a file in its place.
    "output a device": (
        "translate",
        ["--model_dir=model", "--output=/dev/null"],
        "--output=/dev/null: expected a file; leave",
    ),
    "output nowhere, of an evaluation": (
        "evaluate",
        ["--model_dir=model", "--source=a", "--reference=a", "--output=no/where/x"],
        "--output=no/where/x: No such file or directory",
    ),
    "export_dir empty": (
        "export",
        ["--model_dir=model", "--export_dir="],
        "flag --export_dir=: expected a path: see --help.",
    ),
    "name too long": (
        "datagen",
        ["--gin_file=x.gin", f"--data_dir=no_data/{'x' * 256}"],
        "is too long; give one that this system can open, and a file below it",
    ),
    "export_dir below a file": (
        "export",
        ["--model_dir=model", "--export_dir=a/new/one"],
        "a/new/one is below a file, or one itself; expected a directory",
    ),
    "model_dir below a file": (
        "import_t2t",
        ["--checkpoint=t2t", "--vocabulary=t2t.vocab", "--model_dir=a/new"],
        "a is below a file, or one itself; expected a directory",
    ),
    "bad beam": (
        "translate",
        ["--model_dir=model", "--gin_param=BeamSearch.beam_size = 0", "--output=x"],
        "beam_size is 0, expected an integer at least 1",
    ),
    "data missing": ("evaluate", ["--model_dir=model"], "data/prepared is not there"),
    "data of another vocabulary": (
        "evaluate",
        ["--model_dir=model", "--data_dir=other"],
        "other/prepared has other subwords than the model was trained with",
    ),
    "vocabulary missing": (
        "import_t2t",
        ["--checkpoint=t2t", "--vocabulary=no.vocab", "--model_dir=new"],
        "--vocabulary=no.vocab: no such file",
    ),
    "imported over a model": (
        "import_t2t",
        ["--checkpoint=t2t", "--vocabulary=t2t.vocab", "--model_dir=model"],
        "--model_dir=model is there already",
    ),
    "checkpoint of T2T missing": (
        "import_t2t",
        ["--checkpoint=nowhere/model.ckpt-7", "--vocabulary=t2t.vocab", "--model_dir=new"],
        "nowhere/hparams.json cannot be read",
    ),
    "checkpoint of T2T of another step": (
        "import_t2t",
        ["--checkpoint=t2t/model.ckpt-8", "--vocabulary=t2t.vocab", "--model_dir=new"],
        "t2t/model.ckpt-8 holds no checkpoint",
    ),
    "checkpoint of T2T of other sizes": (
        "import_t2t",
        [
            *("--checkpoint=t2t", "--vocabulary=t2t.vocab", "--model_dir=new"),
            "--hparams=other_hparams.json",
        ],
        "hidden_size=512, but the checkpoint has 8",
    ),
    "Marian model missing": (
        "import_marian",
        ["--model=nowhere", "--model_dir=new"],
        "--model=nowhere: no such directory; expected one with what MarianMTModel.save_pretrained",
    ),
    "no Marian model": (
        "import_marian",
        ["--model=t2t", "--model_dir=new"],
        "t2t/config.json cannot be used",
    ),
    "a Marian model over a model": (
        "import_marian",
        ["--model=t2t", "--model_dir=model"],
        "--model_dir=model is there already",
    ),
    "revision of a directory": (
        "import_marian",
        ["--model=t2t", "--model_dir=new", "--revision=main"],
        "--revision=main is for a model of the hub, but --model=t2t is a directory",
    ),
    "vocabulary that does not fit": (
        "import_t2t",
        ["--checkpoint=t2t", "--vocabulary=short.vocab", "--model_dir=new"],
        "the vocabulary has 34 subwords",
    ),
    "vocabulary of another kind": (
        "import_t2t",
        ["--checkpoint=t2t", "--vocabulary=train.en", "--model_dir=new"],
        "train.en begins with 'one two three four'",
    ),
    "target space of a model without": (
        "import_t2t",
        [
            *("--checkpoint=t2t", "--vocabulary=t2t.vocab", "--model_dir=new"),
            "--target_space=8",
        ],
        "target_space=8 was given",
    ),
    "no model to parse with": ("parse", ["--model_dir=nowhere"], "nowhere is no model directory"),
    "a tree is never closed": (
        "datagen",
        ["--gin_file=trees.gin"],
        "bad.mrg, line 2: the tree that begins here is never closed: it lacks 1 closing bracket",
    ),
    "a symbol closes nothing": (
        "evaluate",
        [
            "--translations=a",
            "--reference=closed",
            "--gin_param=evaluate.metrics = [@bracket_f1]",
        ],
        "reference 1 is no linearised tree: /NP closes nothing",
    ),
    "sentence to look at blank": (
        "attention_maps",
        ["--model_dir=model", "--source= ", "--output=x"],
        "--source=' ' is empty, expected a sentence",
    ),
    "sentence to look at too long": (
        "attention_maps",
        # Before it is translated: this one would take minutes.
        ["--model_dir=model", f"--source={'a ' * 200}", "--output=x", "--nopictures"],
        "the source has 201 subwords",
    ),
    "model to look at missing": (
        "attention_maps",
        ["--model_dir=nowhere", "--source=a", "--output=x", "--nopictures"],
        "nowhere is no model directory",
    ),
    "a word to draw lines from, and no pictures": (
        "attention_maps",
        ["--model_dir=model", "--source=a", "--output=x", "--word=a", "--nopictures"],
        "--word asks for pictures, --nopictures for none",
    ),
    "maps into a file": (
        "attention_maps",
        ["--model_dir=model", "--source=a", "--output=train.en", "--nopictures"],
        "--output=train.en: File exists; expected a folder",
    ),
    "model to export missing": (
        "export",
        ["--model_dir=nowhere", "--export_dir=new"],
        "nowhere is no model directory",
    ),
    "checkpoint to export missing": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--checkpoint=best"],
        "no checkpoint best in model",
    ),
    "vocabulary of T2T to export for CTranslate2": (
        "export",
        ["--model_dir=imported", "--export_dir=new", "--format=ctranslate2"],
        "imported/subwords.model is a vocabulary of Tensor2Tensor, which no",
    ),
    "export_dir left out": ("export", ["--model_dir=model"], "error: --export_dir is missing"),
    "no such format": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--format=onnx"],
        "flag --format=onnx",
    ),
    "weights that CTranslate2 makes itself": (
        "export",
        [
            *("--model_dir=model", "--export_dir=new", "--format=ctranslate2"),
            "--weights=bfloat16",
        ],
        "--weights=bfloat16 with --format=ctranslate2: expected float32 or int8",
    ),
    "version of what has none": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--format=ctranslate2", "--version=4"],
        "--version=4 with --format=ctranslate2: --export_dir becomes the model directory",
    ),
    "weights that transformers make themselves": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--format=hugging_face", "--weights=int8"],
        "--weights=int8 with --format=hugging_face: expected float32",
    ),
    "name of what has none": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--format=hugging_face", "--model_name=a"],
        "--model_name=a with --format=hugging_face: --export_dir becomes the model directory",
    ),
    "licence without a card": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--license=mit"],
        "--license=mit with --format=saved_model, which has no model card: leave it out",
    ),
    "licence that is a sentence": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--format=hugging_face", "--license=a: b"],
        "--license=a: b: expected an identifier, such as apache-2.0 or cc-by-4.0",
    ),
    "T2T's model to export for Hugging Face": (
        "export",
        ["--model_dir=imported", "--export_dir=new", "--format=hugging_face"],
        "imported/subwords.model is a vocabulary of Tensor2Tensor, which Hugging",
    ),
    "Hugging Face's directory there": (
        "export",
        ["--model_dir=model", "--export_dir=model", "--format=hugging_face"],
        "--export_dir=model is there already; expected a directory to be made",
    ),
    "CTranslate2's directory there": (
        "export",
        ["--model_dir=model", "--export_dir=model", "--format=ctranslate2"],
        "--export_dir=model is there already; expected a directory to be made",
    ),
    "no such weights": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--weights=int4"],
        "flag --weights=int4",
    ),
    "model name no part of a URL": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--model_name=a/b"],
        "--model_name=a/b: expected letters",
    ),
    "version there": (
        "export",
        ["--model_dir=model", "--export_dir=exported", "--version=4"],
        "--version=4: exported holds that version already",
    ),
    "version no number of one": (
        "export",
        ["--model_dir=model", "--export_dir=new", "--version=0"],
        "--version=0: expected 1 or more",
    ),
    "export_dir a file": (
        "export",
        ["--model_dir=model", "--export_dir=a"],
        "--export_dir=a: expected a directory",
    ),
    "directory to serve left out": ("serve", [], "error: --export_dir is missing"),
    "directory to serve missing": (
        "serve",
        ["--export_dir=nowhere"],
        "--export_dir=nowhere: no such directory",
    ),
    "nothing to serve": ("serve", ["--export_dir=model"], "model holds no version of a model"),
    "nothing that can be served": (
        "serve",
        ["--export_dir=exported"],
        "exported/4/saved_model.pb is no SavedModel (no such file): copy or export it again.",
    ),
    "served model's name no part of a URL": (
        "serve",
        ["--export_dir=exported", "--model_name=a:b"],
        "--model_name=a:b: expected letters",
    ),
    "port no number of one": (
        "serve",
        ["--export_dir=exported", "--rest_port=70000"],
        "flag --rest_port=70000",
    ),
    "nobody serves": (
        "client",
        ["--server=127.0.0.1:9", "--retries=0"],
        "--server=127.0.0.1:9 cannot be reached",
    ),
    "no such protocol": ("client", ["--protocol=soap"], "flag --protocol=soap"),
    "lines for a server missing": (
        "client",
        ["--input=no.txt"],
        "--input=no.txt: No such file or directory",
    ),
    "no runs": ("report", ["--runs=nowhere"], "--runs=nowhere holds no run of Table 3"),
    "no such table": ("report", ["--table=4"], "flag --table=4"),
    "runs of before for another table": (
        "report",
        ["--table=scores", "--earlier=before.csv"],
        "--earlier is for --table=3, and not for --table=scores",
    ),
    "a report to a file": (
        "report",
        ["--runs=rows", "--output=train.en"],
        "--output=train.en is a file: give a folder",
    ),
    "runs of before that are none": (
        "report",
        ["--earlier=train.en"],
        "expected the header of a table_3.csv",
    ),
    "no scores": (
        "report",
        ["--table=scores", "--runs=nowhere"],
        "--runs=nowhere holds no run that was evaluated, expected folders such as nowhere/seed_1",
    ),
    "nothing to evaluate": ("evaluate", [], "either --model_dir, or --translations"),
    "no reference": ("evaluate", ["--translations=a"], "--reference is missing"),
    "reference missing": (
        "evaluate",
        ["--translations=a", "--reference=no.txt"],
        "--reference=no.txt: No such file or directory",
    ),
    "reference not UTF-8": (
        "evaluate",
        ["--translations=a", "--reference=latin.txt"],
        "--reference=latin.txt, line 2: byte 0xe9 at position 3 is not valid UTF-8",
    ),
    "more subwords than the model knows": (
        "translate",
        ["--model_dir=old"],
        "old/subwords.model has 320 subwords, but the model was trained with 300 at most",
    ),
    "targets left out": (
        "score",
        ["--model_dir=model", "--source=a"],
        "--target is missing: see --help",
    ),
    "a target too many": (
        "score",
        ["--model_dir=model", "--source=a", "--target=train.de"],
        "--source=a has 1 lines, --target=train.de has 2 lines: expected files in which line n",
    ),
    "unequal files": (
        "evaluate",
        ["--translations=train.en", "--reference=train.de"],
        "--translations=train.en has 3 lines, --reference=train.de has 2: expected files in which",
    ),
    "baseline of another length": (
        "evaluate",
        ["--translations=train.en", "--baseline=a", "--reference=train.en"],
        "--baseline=a has 1 lines, --reference=train.en has 3: expected files in which line n",
    ),
    "a test against nothing": (
        "evaluate",
        ["--translations=a", "--reference=a", "--confidence", "--significance=bootstrap"],
        "--significance says nothing alone: give --baseline too",
    ),
    "samples of nothing": (
        "evaluate",
        ["--translations=a", "--reference=a", "--samples=10"],
        "--samples says nothing alone: give --baseline or --confidence too",
    ),
    "a seed that sacreBLEU takes for none": (
        "evaluate",
        ["--translations=a", "--reference=a", "--confidence", "--seed=0"],
        "flag --seed=0: 0 is not a positive integer",
    ),
    "a source and no model": (
        "evaluate",
        ["--translations=a", "--reference=a", "--source=a"],
        "--source is for a model: give --model_dir too",
    ),
    "a reference for a split": (
        "evaluate",
        ["--model_dir=model", "--reference=a"],
        "--reference alone says nothing to a model: give --source too",
    ),
    "reference of another length": (
        "evaluate",
        ["--model_dir=model", "--source=train.en", "--reference=train.de"],
        "--source=train.en has 3 lines, --reference=train.de has 2: expected files in which",
    ),
    "another subword model of the same size": (
        "translate",
        ["--model_dir=swapped"],
        "swapped has other subwords than the model was trained with",
    ),
}

WORKING: dict[str, tuple[str, list[str]]] = {
    "parsing": ("parse", ["--model_dir=model"]),
    "odd lines": ("translate", ["--model_dir=model"]),
    "samples from beginnings": (
        "translate",
        [
            *("--model_dir=model", "--input=train.de", "--prefix=beginnings", "--n_best=2"),
            *("--gin_param=Translator.search = @Sampling()", "--gin_param=Sampling.samples = 2"),
        ],
    ),
    "all flags": (
        "translate",
        ["--model_dir=model", "--n_best=2", "--scores", "--checkpoint=latest"],
    ),
    "an old average": ("translate", ["--model_dir=stale"]),
    "existing translations": (
        "evaluate",
        ["--translations=train.en", "--reference=train.en"],
    ),
    "other metrics": (
        "evaluate",
        [
            "--translations=train.en",
            "--reference=train.en",
            "--gin_param=evaluate.metrics = [@tokenised_bleu, @exact_match]",
        ],
    ),
    "several systems": (
        "evaluate",
        [
            *("--translations=train.en", "--translations=latin.en", "--baseline=latin.en"),
            *("--reference=train.en", "--samples=20"),
            "--gin_param=evaluate.metrics = [@bleu, @ter, @exact_match]",
        ],
    ),
    "a model and a baseline": (
        "evaluate",
        [
            *("--model_dir=model", "--source=train.en", "--reference=train.en"),
            *("--baseline=latin.en", "--translations=train.en", "--format=json", "--samples=20"),
        ],
    ),
    "an interval": (
        "evaluate",
        ["--translations=latin.en", "--reference=train.en", "--confidence", "--seed=3"],
    ),
    "a report without base": ("report", ["--runs=rows", "--output=../report"]),
    "a report with runs of before": ("report", ["--runs=rows", "--earlier=before.csv"]),
    "scores of several seeds": ("report", ["--runs=seeds", "--table=scores"]),
    "attention maps": (
        "attention_maps",
        ["--model_dir=model", "--source=a <b> c", "--output=../maps", "--nopictures"],
    ),
}
STDIN = "a b c\n\n 🙂\u2028 b\r\nlast"


# What a verb can say at once, before it imports what takes seconds.
AT_ONCE = {
    **{
        f"{verb} --help": (verb, ["--help"], 1)
        for verb in sorted({case[0] for case in CASES.values()})
    },
    **{
        name: (*CASES[name][:2], 2)
        for name in (
            "unknown flag",
            "bad value",
            "flag left out",
            "no flag at all",
            "gin file missing",
            "export_dir left out",
            "directory to serve missing",
            "served model's name no part of a URL",
            "lines for a server missing",
            "nobody serves",
            "no such weights",
            "weights that CTranslate2 makes itself",
            "version of what has none",
            "model name no part of a URL",
            "nothing to evaluate",
            "no reference",
            "reference of another length",
            "baseline of another length",
            "a target too many",
            "input missing",
            "vocabulary missing",
        )
    },
}
IMPORTED = """
import runpy, sys
try:
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
finally:
    heavy = {"tensorflow", "keras", "numpy", "sacrebleu", "babel"} & set(sys.modules)
    print("imported:", *sorted(heavy))
"""


@pytest.mark.parametrize("name", AT_ONCE)
def test_help_and_plain_mistakes_import_no_tensorflow(name, tmp_path):
    module, arguments, status = AT_ONCE[name]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, f"t2t_repro.{module}", *arguments],
        input="a line for those that read standard input\n",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == status, done.stderr
    assert done.stdout.endswith("imported:\n")
    assert ("flags:" in done.stdout) == ("--help" in arguments)


def test_an_installed_command_has_the_same_help(tmp_path):
    script = tmp_path / "t2t-translate"
    script.write_text("from t2t_repro.translate import cli\ncli()\n")
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, script, "--help"], env=environment, capture_output=True, text=True
    )
    assert "N lines in, N lines out" in done.stdout
    for flag in ("--model_dir:", "--checkpoint:", "--gin_param:", "--n_best:"):
        assert flag in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "shown"),
    [
        ([], 0, "  trainer "),
        (["--help"], 0, "  trainer "),
        (["translate"], 2, "error: received 'translate', .* as in python -m t2t_repro.translate\n"),
        (["--gin_file=x.gin"], 2, "error: received '--gin_file=x.gin', .* t2t_repro.trainer\n"),
    ],
)
def test_the_package_itself_lists_the_verbs_and_takes_none(arguments, status, shown):
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, "-m", "t2t_repro", *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == status
    assert re.search(shown, done.stderr if status else done.stdout)


def test_a_package_that_is_not_installed_is_named(tmp_path):
    arguments = ["--model_dir=model", "--export_dir=new", "--format=ctranslate2"]
    hidden = f"import sys\nsys.modules['ctranslate2'] = None\n{IMPORTED}"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "t2t_repro.export", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 2
    assert done.stdout == "imported:\n"
    assert "ctranslate2 is not installed" in done.stderr
    assert "pip install" in done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with an untrained model, an experiment and some text."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "train.en").write_text("one two three four\nfive six seven eight\nnine\n")
    (folder / "train.de").write_text("eins zwei\ndrei\n")
    (folder / "beginnings").write_text("a b\n\n")
    (folder / "latin.en").write_text("unus duo three four\nfive sex seven eight\nnine\n")
    (folder / "latin.txt").write_bytes("gut\ncaf\xe9\n".encode("latin-1"))
    (folder / "a").write_text("a\n")
    (folder / "exported" / "4").mkdir(parents=True)
    (folder / "x.gin").write_text(GIN)
    (folder / "t2t").mkdir()
    write_checkpoint(folder / "t2t", t2t_variables()[0])
    (folder / "other_hparams.json").write_text('{"num_heads": 8, "hidden_size": 512}')
    subwords = ["<pad>_", "<EOS>_", *"\\_u;0123456789", *(f"u{i}_" for i in range(16, VOCAB))]
    (folder / "t2t.vocab").write_text("\n".join(subwords))
    (folder / "short.vocab").write_text("\n".join(subwords[:-1]))
    (folder / "closed").write_text("/NP\n")
    (folder / "bad.mrg").write_text("(S (NN a))\n(S (NP (NN b))\n(S (NN c))\n")
    (folder / "trees.gin").write_text(TREES_GIN)
    text = str(folder / "train.en")
    corpus = TextFilesCorpus((text, text), (text, text), (text, text))
    rules = Cleaning(drop_held_out=False)
    Preparation(corpus, rules, SubwordTraining(vocab_size=280)).run(folder / "other")
    SubwordTraining(vocab_size=270).train(["a b c d e f g"] * 9, folder / "made.model")
    model = Transformer(300, 1, LayerConfig(d_model=8, d_ff=8, num_heads=2))
    model.build()
    optimizer = adam(0.001)
    optimizer.build(model.trainable_variables)
    config = "BeamSearch.beam_size = 2\nTranslator.max_extra_length = 3\n"
    directory = ModelDirectory(folder / "model")
    directory.describe(model, shared(SentencePieceModel(folder / "made.model")), config, config)
    Checkpoints(directory, model, optimizer).save(RunState(step=7))
    shutil.copytree(folder / "model", folder / "stale")
    ModelDirectory(folder / "stale").choice.write_averaged(model, 5)
    (folder / "before.csv").write_text(as_csv({"base_ende": seeds(20.0, 21.0)}))
    row = ModelDirectory(folder / "rows" / "a_1_head" / "model")
    shutil.copytree(folder / "model", row.path)
    row.write_epoch(EpochReport(100, 2, 3, 20, 900, 1200, 2400))
    for seed, perplexity in ((1, 5.0), (2, 7.0)):
        of_seed = ModelDirectory(folder / "seeds" / f"seed_{seed}" / "model")
        shutil.copytree(folder / "model", of_seed.path)
        of_seed.write_scores("dev", Evaluation("best/step-7", perplexity, []).as_dict())
    shutil.copytree(folder / "model", folder / "swapped")
    swapped = ModelDirectory(folder / "swapped").path / "subwords.model"
    SubwordTraining(vocab_size=270).train(["h i j k l m n"] * 9, swapped)
    old = ModelDirectory(folder / "old")
    shutil.copytree(folder / "model", old.path)
    old.versions_json.write_text("{}")
    words = [chr(ord("a") + n) * 3 for n in range(26)]
    SubwordTraining(vocab_size=320).train([" ".join(words)] * 9, old.path / "subwords.model")
    imported = ModelDirectory(folder / "imported")
    imported.describe(model, shared(T2TSubwords(folder / "t2t.vocab")), config, config)
    imported.write_imported(model, step=7)
    return folder


@pytest.fixture(scope="module")
def outcomes(folder):
    """What became of every command, by its name in CASES or WORKING."""
    commands = {**{name: case[:2] for name, case in CASES.items()}, **WORKING}
    with ExitStack() as held:
        for path in (
            *("trained/.trainer", "model/.average", ".coming", "exported/.export"),
            ".expected",
        ):
            held.enter_context(exclusive_lock(folder / f"{path}.lock", "", ""))
        before = listing(folder)
        outcomes = outcomes_of([(*command, STDIN) for command in commands.values()], folder)
        assert listing(folder) == before
    return dict(zip(commands, outcomes, strict=True))


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_line_and_status_2(outcomes, name):
    outcome = outcomes[name]
    assert outcome.status == 2, outcome.err
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert outcome.err.endswith(errors[0] + "\n")
    assert CASES[name][2] in errors[0]
    assert len(errors[0]) < 400
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


def test_translate_gives_a_line_for_every_line_of_standard_input(outcomes):
    outcome = outcomes["odd lines"]
    assert outcome.status == 0, outcome.err
    lines = outcome.out.split("\n")
    assert len(lines) == 4 + 1
    assert lines[-1] == ""
    assert lines[1] == ""
    assert "Traceback" not in outcome.err


def test_translate_draws_from_given_beginnings(outcomes):
    outcome = outcomes["samples from beginnings"]
    assert outcome.status == 0, outcome.err
    *lines, last = outcome.out.split("\n")
    assert (len(lines), last) == (4, "")
    assert [line[:3] == "a b" for line in lines] == [True, True, False, False]


def test_parse_gives_a_line_for_every_line_tree_or_not(outcomes):
    outcome = outcomes["parsing"]
    assert outcome.status == 0, outcome.err
    lines = outcome.out.split("\n")
    assert (len(lines), lines[1], lines[-1]) == (4 + 1, "(())", "")
    assert all(line == "(())" or line.startswith("(TOP ") for line in lines[:-1])
    assert "line 2: no tree of 0 words" in outcome.err


def test_n_best_and_scores_say_which_line_they_are_of(outcomes):
    outcome = outcomes["all flags"]
    assert outcome.status == 0, outcome.err
    rows = [line.split("\t", 2) for line in outcome.out.split("\n")[:-1]]
    numbers = [int(row[0]) for row in rows]
    assert sorted(set(numbers)) == [1, 2, 3, 4]
    assert numbers == sorted(numbers)
    assert numbers.count(2) == 1
    assert [row[1:] for row in rows if row[0] == "2"] == [["0.0000", ""]]
    for number in (1, 3, 4):
        scores = [float(row[1]) for row in rows if int(row[0]) == number]
        assert scores == sorted(scores, reverse=True)


def test_the_checkpoint_that_was_taken_is_named(outcomes):
    assert "] using checkpoints/step-7 of model\n" in outcomes["odd lines"].err
    assert "older" not in outcomes["odd lines"].err
    err = outcomes["an old average"].err
    assert "] using averaged/step-5 of stale\n" in err
    assert "that average is older than checkpoints/step-7: average again (python -m" in err


def test_existing_translations_are_scored_without_a_model(outcomes):
    outcome = outcomes["existing translations"]
    assert outcome.status == 0, outcome.err
    first, second = outcome.out.splitlines()
    assert first.startswith("BLEU 100.00  [")
    assert "tok:13a" in first
    assert second.startswith("chrF 100.00  [")


def test_the_metrics_can_be_chosen(outcomes):
    outcome = outcomes["other metrics"]
    assert outcome.status == 0, outcome.err
    names = [line.split(" 100.00")[0] for line in outcome.out.splitlines()]
    assert names == ["tokenised lower-cased BLEU", "exact match"]


def test_several_systems_are_one_table(outcomes):
    outcome = outcomes["several systems"]
    assert outcome.status == 0, outcome.err
    head, _, baseline, first, second, *below = outcome.out.splitlines()
    assert head == "| system | BLEU ↑ | TER ↓ | exact match ↑ |"
    assert baseline.startswith("| latin.en (baseline) | ")
    assert re.match(r"\| train.en \| 100.00 \(μ = .*\) p = 0.\d+\*? \| 0.00 \(", first)
    assert second.startswith("| latin.en | ")
    assert (second.count("p = "), second.count("*")) == (2, 0)
    assert "- TER: `nrefs:1|bs:20|seed:12345|case:lc|tok:tercom|" in "\n".join(below)


def test_a_model_is_compared_with_files(outcomes):
    outcome = outcomes["a model and a baseline"]
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert [row["system"] for row in found] == [
        "latin.en",
        "model (checkpoints/step-7)",
        "train.en",
    ]
    assert [row["is_baseline"] for row in found] == [True, False, False]
    assert [score["name"] for score in found[1]["scores"]] == ["BLEU", "chrF"]
    assert [row["scores"][0]["p_value"] is None for row in found] == [True, False, False]
    assert found[1]["scores"][0]["value"] < 1.0 < found[2]["scores"][0]["value"]


def test_an_interval_stands_beside_the_score(outcomes):
    outcome = outcomes["an interval"]
    assert outcome.status == 0, outcome.err
    for line in outcome.out.splitlines():
        assert re.match(r"\w+ [\d.]+ \(μ = [\d.]+ ± [\d.]+\)  \[.*\|bs:1000\|seed:3\|", line)


def test_a_report_without_what_a_plot_needs_has_its_tables(outcomes, folder):
    outcome = outcomes["a report without base"]
    assert outcome.status == 0, outcome.err
    assert "| A | h = 1, d_k = d_v = 512 | 100,000 | 7 |" in outcome.out
    assert (
        "1 of 1 runs are not the paper's models, by their parameters (a_1_head 0.0" in outcome.err
    )
    assert "table_3.png is not drawn: the plot shows differences from base_ende" in outcome.err
    written = {path.name for path in (folder.parent / "report").iterdir()}
    assert written == {"table_3.md", "table_3.csv"}


def test_runs_of_before_stand_in_the_report(outcomes):
    outcome = outcomes["a report with runs of before"]
    assert outcome.status == 0, outcome.err
    assert "| A | h = 1, d_k = d_v = 512 | 100,000 | 7 |" in outcome.out
    assert "| base |  | 100,000 | 1,500 | 4.92 | 5.00 ± 0.00 | 25.8 | 20.50 ± 0.71 |" in outcome.out


def test_scores_of_several_seeds_are_their_mean(outcomes):
    outcome = outcomes["scores of several seeds"]
    assert outcome.status == 0, outcome.err
    assert "| perplexity | 6.00 ± 1.41 | 2 | 5.00 | 7.00 |" in outcome.out.splitlines()
    assert "seeds/seed_2/model has the seed of a run before it" in outcome.err


def test_attention_maps_are_of_the_model_s_own_translation(outcomes, folder):
    outcome = outcomes["attention maps"]
    assert outcome.status == 0, outcome.err
    (page,) = (folder.parent / "maps").iterdir()
    assert page.name == "attention.html"
    text = page.read_text(encoding="utf-8")
    assert "the model's own translation" in text
    assert "step-7" in text
    assert r"a \u003cb\u003e c" in text


def test_an_output_file_appears_whole_or_not_at_all(tmp_path):
    def lines(count):
        for number in range(3):
            if number == count:
                raise UserError("no more")
            yield f"line {number}"

    path = tmp_path / "x"
    with pytest.raises(UserError, match="no more"):
        write_output(lines(2), str(path))
    assert list(tmp_path.iterdir()) == []
    write_output(lines(3), str(path))
    with pytest.raises(UserError, match="no more"):
        write_output(lines(1), str(path))
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"line 0\nline 1\nline 2\n"


def test_two_that_write_one_output_leave_that_of_one(tmp_path):
    path, own = tmp_path / "x", tmp_path / "x.partial"
    own.write_text("the user's own")

    def lines(name, others):
        for number in range(1000):
            yield f"{name} {number} " * 9
            if number == 500 and others:
                write_output(lines("b", False), str(path))

    write_output(lines("a", True), str(path))
    assert path.read_text().splitlines() == list(lines("a", False))
    assert own.read_text() == "the user's own"


def test_a_full_disk_is_known_through_gin():
    error = OSError(errno.ENOSPC, "No space left on device", "train.tokens")
    for given in (error, passed_through_gin(error)):
        assert storage_error(given) == "No space left on device: 'train.tokens'"
    assert storage_error(FileNotFoundError(errno.ENOENT, "No such file", "x")) is None


def passed_through_gin(error):
    @gin.configurable
    def fails():
        raise error

    with pytest.raises(OSError, match="In call to configurable") as caught:
        fails()
    return caught.value
