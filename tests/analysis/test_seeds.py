"""Scores of several seeds: which runs belong together, and their mean and spread."""

import math

import pytest

from t2t_repro.analysis.run_record import Evaluation
from t2t_repro.analysis.seeds import Sample, model_directories, other_differences, score_tables
from t2t_repro.errors import UserError
from t2t_repro.evaluation.scores import Score
from t2t_repro.runs.model_directory import ModelDirectory


def write_run(model_dir, split, bleu, perplexity=5.0, seed=1, more=""):
    directory = ModelDirectory(model_dir)
    scores = [Score("BLEU", bleu, "tok:13a")]
    directory.write_scores(split, Evaluation("averaged/step-9", perplexity, scores).as_dict())
    directory.config_gin.write_text(f"train.seed = {seed}\nPace.steps = 9\n{more}")


@pytest.fixture
def experiment(tmp_path):
    """Three seeds, of which the last has been evaluated on one of two splits."""
    for seed, bleu in ((1, 40.0), (2, 41.0), (10, 42.5)):
        model_dir = tmp_path / f"seed_{seed}" / "model"
        write_run(model_dir, "test", bleu, 4.0 + seed / 10, seed)
        if seed != 10:
            write_run(model_dir, "test_2017_flickr", 30.0 + seed, seed=seed)
    return tmp_path


def test_mean_and_spread_of_every_split(experiment):
    assert score_tables(experiment)[2:] == [
        "| test | mean | runs | seed_1 | seed_2 | seed_10 |",
        "|---|---:|---:|---:|---:|---:|",
        "| perplexity | 4.43 ± 0.49 | 3 | 4.10 | 4.20 | 5.00 |",
        "| BLEU | 41.17 ± 1.26 | 3 | 40.00 | 41.00 | 42.50 |",
        "",
        "- of seed_1: averaged/step-9, seed_2: averaged/step-9, seed_10: averaged/step-9",
        "- BLEU: `tok:13a`",
        "",
        "| test_2017_flickr | mean | runs | seed_1 | seed_2 |",
        "|---|---:|---:|---:|---:|",
        "| perplexity | 5.00 ± 0.00 | 2 | 5.00 | 5.00 |",
        "| BLEU | 31.50 ± 0.71 | 2 | 31.00 | 32.00 |",
        "",
        "- of seed_1: averaged/step-9, seed_2: averaged/step-9",
        "- BLEU: `tok:13a`",
    ]


def test_a_single_run_has_no_spread(tmp_path):
    write_run(tmp_path / "model", "dev", 20.0)
    assert "| BLEU | 20.00 | 1 | 20.00 |" in score_tables(tmp_path)
    assert Sample((20.0,)).deviation is None


def test_the_spread_of_a_run_that_diverged_is_infinite(experiment):
    write_run(experiment / "seed_2" / "model", "test", 0.1, math.inf, seed=2)
    assert "| perplexity | inf ± inf | 3 | 4.10 | inf | 5.00 |" in score_tables(experiment)
    assert Sample((1.0, math.nan)).deviation == math.inf
    assert Sample((math.inf,)).deviation is None


def test_a_metric_that_a_run_lacks_is_left_open(experiment):
    directory = ModelDirectory(experiment / "seed_2" / "model")
    directory.write_scores("test", Evaluation("best/step-5", 4.2, []).as_dict())
    assert "| BLEU | 41.25 ± 1.77 | 2 | 40.00 | – | 42.50 |" in score_tables(experiment)


def test_runs_are_in_the_order_of_their_seeds_and_other_folders_are_none(experiment):
    (experiment / "seed_1" / "data").mkdir()
    (experiment / "seed_old" / "model").mkdir(parents=True)
    (experiment / "data").mkdir()
    assert [*model_directories(experiment)] == ["seed_1", "seed_2", "seed_10"]
    assert model_directories(experiment / "nothing") == {}


def test_a_run_that_may_be_counted_twice_is_refused(experiment):
    (experiment / "model").mkdir()
    with pytest.raises(UserError, match="holds both model and seed_1, seed_2, seed_10, expected"):
        model_directories(experiment)


def test_no_evaluation_is_refused(tmp_path):
    (tmp_path / "seed_1" / "model").mkdir(parents=True)
    with pytest.raises(UserError, match="holds no run that was evaluated, expected folders such"):
        score_tables(tmp_path)


def test_what_is_not_another_seed_of_the_same_is_named(experiment):
    directories = [*model_directories(experiment).values()]
    assert other_differences(directories) == []
    write_run(directories[2], "test", 42.0, seed=3, more="LayerConfig.dropout = 0.2\n")
    (text,) = other_differences(directories)
    assert text == (
        f"{directories[2]} is not {directories[0]} with another seed: "
        "LayerConfig.dropout not bound there, 0.2 now"
    )
    write_run(directories[2], "test", 42.0, seed=2)
    (text,) = other_differences(directories)
    assert text == f"{directories[2]} has the seed of a run before it"
