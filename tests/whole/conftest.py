"""The shared runs."""

import pytest

from tests.whole import runs
from tests.whole.runs import CYRILLIC, DATA, GIN, MODEL, Run, trainer

# Of the task: enough to learn it.
STEPS = 400
TWO = """
prepare.source_subwords = @source/SubwordTraining()
source/SubwordTraining.vocab_size = 290
SubwordTraining.vocab_size = 310
Transformer.tied_embeddings = 'target_softmax'
"""


@pytest.fixture(scope="session")
def task_run(tmp_path_factory) -> Run:
    """A task whose sides have a vocabulary each: trained in two parts, used by every verb."""

    def make(folder):
        evaluation = "TrainingSchedule.evaluate_every = 200"
        runs.write_task(folder, GIN + TWO)
        runs.write_lines(folder / "short", ["ant bee", "", "  ", "cat"])
        columns = [f"{line}\tANT" for line in runs.lines_of(folder / "test.target")]
        runs.write_lines(folder / "columns.tsv", columns)
        return {
            "datagen": ("datagen", ["--gin_file=task.gin", DATA], ""),
            "begun": trainer("model", 200, evaluation),
            "trained": trainer("model", STEPS, evaluation),
            "again": trainer("model", STEPS, evaluation, "train.seed = 7"),
            "average": ("average", [MODEL, "--last=2"], ""),
            "evaluate": ("evaluate", [MODEL, DATA, "--output=evaluated"], ""),
            "stdin": ("translate", [MODEL], "\nant bee cat\n  \n"),
            "n_best": (
                "translate",
                [
                    *(MODEL, "--input=short", "--prefix=short", "--output=best", "--n_best=2"),
                    *("--scores", "--alignments=links"),
                ],
                "",
            ),
            "score": ("score", [MODEL, "--source=test.source", "--target=test.target"], ""),
            "tokens": ("score", [MODEL, "--source=short", "--target=short", "--tokens"], ""),
            "compare": (
                "evaluate",
                [
                    *("--translations=test.target", "--baseline=test.source", "--samples=100"),
                    *("--reference=test.source", "--reference=columns.tsv", "--format=json"),
                    "--seed=7",
                ],
                "",
            ),
            "maps": ("attention_maps", [MODEL, "--source=ant bee", "--output=maps"], ""),
            "export": ("export", [MODEL, "--export_dir=servable"], ""),
        }

    return runs.made_once(tmp_path_factory, "task", make)


MIXED = """
prepare.corpus = @Mixture()
Mixture.corpora = {'cyrillic': @cyrillic/TextFilesCorpus(), 'copies': @copies/TextFilesCorpus()}
Mixture.tags = {'cyrillic': '<cyr>', 'copies': '<copy>'}
Mixture.weights = {'cyrillic': 3, 'copies': 1}
Mixture.epoch_sentences = 401
cyrillic/TextFilesCorpus.train = 'cyrillic.train.tsv'
cyrillic/TextFilesCorpus.dev = 'cyrillic.dev.tsv'
copies/TextFilesCorpus.train = 'copies.train.tsv'
copies/TextFilesCorpus.dev = 'copies.dev.tsv'
SubwordTraining.vocab_size = 330
TrainStep.micro_batches = 2
DevEvaluation.sentences = 8
DevEvaluation.metric = @chrf
BeamSearch.beam_size = 1
"""
MIXED_STEPS = 40, 450


@pytest.fixture(scope="session")
def mixed_run(tmp_path_factory) -> Run:
    """Two corpora: behind <cyr> words are translated, behind <copy> they stay."""

    def make(folder):
        lines = runs.sentences(500, longest=3)
        for name, meaning, splits in (
            ("cyrillic", CYRILLIC, {"dev": lines[:20], "train": lines[40:]}),
            # Fewer: they are read more than once an epoch.
            (
                "copies",
                {word: word for word in CYRILLIC},
                {"dev": lines[:10], "train": lines[40:100]},
            ),
        ):
            for split, part in splits.items():
                pairs = [f"{line}\t{runs.translated(line, meaning)}" for line in part]
                runs.write_lines(folder / f"{name}.{split}.tsv", pairs)
        own = [line for line in GIN.splitlines() if "TextFilesCorpus" not in line]
        (folder / "task.gin").write_text("\n".join(own) + MIXED)
        first, last = MIXED_STEPS
        weights = "Mixture.weights = {'cyrillic': 1, 'copies': 1}"
        return {
            "begun": trainer("model", first, "TrainingSchedule.evaluate_every = 20"),
            "other weights": trainer("model", last, weights),
        }

    return runs.made_once(tmp_path_factory, "mixture", make)
