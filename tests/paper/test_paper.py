"""Tables 1 to 3: the published figures, and what is computed from runs beside them."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

import cost
import findings
import layer_complexity
import table_3
from findings import Difference, Spread
from operations import forward_operations, training_operations
from runs import Evaluation, Run, Sample, model_directories, read_run, score_tables
from t2t_repro.errors import UserError
from t2t_repro.evaluation.paper_bleu import PAPER_BLEU
from t2t_repro.model.settings import LayerConfig
from t2t_repro.model.transformer import Transformer
from tests.processes import output_of


def run_of(perplexity, bleu=None, parameters=65_073_152):
    scores = {} if bleu is None else {PAPER_BLEU: bleu}
    dev = Evaluation("checkpoints/step-9", perplexity, scores, {})
    return Run(100_000, parameters, 1.5e16, 1234.5, {"dev": dev})


def seeds(*bleus, perplexity=4.92):
    return {f"seed_{n}": run_of(perplexity, bleu) for n, bleu in enumerate(bleus, 1)}


@pytest.mark.parametrize(
    ("kind", "projections", "attention"),
    [("attention", (7 + 7) * 8 * 16, 7 * 7 * 16), ("ssru", 7 * 2 * 8 * 8, 0)],
)
def test_operations_are_those_of_the_matrix_products(kind, projections, attention):
    config = LayerConfig(d_model=8, d_ff=12, num_heads=2, decoder_self_attention=kind)
    sizes = Transformer(20, 3, config, num_decoder_layers=2).get_config()
    counted = forward_operations(sizes, 5, 7).total
    assert counted == 2 * (
        (3 * 5 + 2 * 7) * 2 * 8 * 12  # W_1 and W_2
        + 3 * (5 + 5) * 8 * 16  # Q, O and K, V of the encoder's attention
        + 2 * (projections + attention)
        + 2 * (7 + 5) * 8 * 16  # and of the decoder's to the source
        + (3 * 5 * 5 + 2 * 7 * 5) * 16
        + 7 * 8 * 20
    )


def test_training_is_about_six_operations_a_parameter_and_token():
    base = cost.EXPERIMENTS[0]
    tokens = cost.TOKENS * base.steps
    rough = 6 * 65_073_152 * tokens
    assert base.operations == pytest.approx(rough, rel=0.01)
    twice = training_operations(base.sizes, 2 * tokens, 2 * tokens, cost.SENTENCE)
    assert twice == pytest.approx(2 * base.operations)


def test_what_a_run_left_is_read(tmp_path):
    model = Transformer(50, 2, LayerConfig(d_model=8, d_ff=16, num_heads=2))
    model.build()
    path = tmp_path / "own" / "seed_1" / "model"
    (path / "scores").mkdir(parents=True)
    (path / "model.json").write_text(json.dumps(model.get_config()))
    epoch = {"sentences": 100, "batches": 20, "source_tokens": 900, "target_tokens": 1200}
    (path / "epoch.json").write_text(json.dumps(epoch))
    checkpoint = tf.train.Checkpoint(x=tf.Variable(0.0))
    folder = str(path / "checkpoints")
    manager = tf.train.CheckpointManager(checkpoint, folder, 2, checkpoint_name="step")
    manager.save(checkpoint_number=60)
    with tf.summary.create_file_writer(str(path / "tensorboard")).as_default():
        for step, speed in ((20, 100.0), (40, 9.0), (60, 120.0)):
            tf.summary.scalar("train/real_tokens_per_second", speed, step=step)
    scores = [{"name": "BLEU", "value": 30.0, "signature": "sacre"}]
    evaluation = {"checkpoint": "best/step-60", "perplexity": 5.0, "scores": scores}
    (path / "scores" / "dev.json").write_text(json.dumps(evaluation))
    run = read_run(path)
    assert run
    assert (run.steps, run.parameters, run.tokens_per_second) == (60, model.count_params(), 100.0)
    assert run.operations == training_operations(model.get_config(), 2700, 3600, 12)
    assert run.evaluations["dev"].scores == {"BLEU": 30.0}
    for folder, title in ((tmp_path, "own: dev"), (tmp_path / "own", "dev"), (path, "dev")):
        text = "\n".join(score_tables(folder))
        assert f"| {title} | mean | runs | " in text
        assert "| BLEU | 30.00 | 1 | 30.00 |" in text
        assert "sacre" in text


def test_a_run_without_a_seed_beside_others_is_refused(tmp_path):
    for name in ("seed_10", "seed_2"):
        (tmp_path / name / "model").mkdir(parents=True)
    assert list(model_directories(tmp_path)) == ["seed_2", "seed_10"]
    (tmp_path / "model").mkdir()
    with pytest.raises(UserError, match="seed_2"):
        model_directories(tmp_path)


def test_the_csv_is_read_as_it_was_written(tmp_path):
    runs = {"base_ende": seeds(20.25, 20.5), "big_ende": {"model": run_of(math.e)}}
    path = tmp_path / "table_3.csv"
    path.write_text(table_3.as_csv(runs))
    assert table_3.read_csv(path) == runs
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match=r"table_3\.csv"):
        table_3.read_csv(path)


def test_an_interval_is_students():
    samples = [Sample((1.0, 3.0)), Sample((4.0, 8.0, 6.0))]
    spread = Spread.pooled(samples)
    assert spread.deviation
    assert spread.deviation == pytest.approx(math.sqrt((2 + 8) / 3))
    difference = spread.difference(*samples)
    t = 3.18245  # 97.5 % point with 3 degrees of freedom, from a table
    assert difference.value == -4.0
    assert difference.half_width == pytest.approx(t * spread.deviation * math.sqrt(5 / 6), 1e-5)


@pytest.mark.parametrize(
    ("value", "half_width", "published", "tolerance", "verdict"),
    [
        (-1.0, 0.5, -0.9, None, "agrees"),
        (1.0, 0.5, -0.9, None, "disagrees"),
        (-0.4, 0.5, -0.9, None, "cannot be told apart"),
        (-0.4, None, -0.9, None, "spread unknown"),
        (0.1, 0.2, -0.1, 0.5, "agrees"),
        (0.9, 0.2, -0.1, 0.5, "disagrees"),
    ],
)
def test_a_verdict_asks_for_the_whole_interval(value, half_width, published, tolerance, verdict):
    assert Difference(value, half_width).verdict(published, tolerance) == verdict


def test_a_finding_is_judged_by_its_rows():
    runs = {"base_ende": seeds(25.0, 25.2), "a_1_head": seeds(24.0, 24.2, perplexity=6.0)}
    lines = findings.as_markdown(runs)
    (line,) = [line for line in lines if "a_1_head − base_ende" in line]
    assert "| -0.90 | -1.00 ± 0.61 | agrees |" in line
    assert sum("not measured" in line for line in lines) > 5


def test_self_attention_is_cheaper_up_to_n_equal_to_d():
    """Section 4: self-attention is faster than recurrence while n is smaller than d."""
    layers = "self-attention", "recurrent"
    for n, d in ((100, 512), (512, 512), (1000, 512)):
        attention, recurrent = (layer_complexity.complexity(one, n, d, 3, 64) for one in layers)
        assert (attention <= recurrent) == (n <= d)
    sizes = np.array([64.0, 128, 256, 512])
    assert layer_complexity.exponent(list(sizes), list(5 * sizes**2)) == pytest.approx(2)


@pytest.mark.slow
def test_layers_are_measured_and_drawn(tmp_path):
    output_of("paper/layer_complexity.py", f"--out={tmp_path}", "--quick", "--repeats=1")
    assert {"results.jsonl", "table.md", "plot.png"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.slow
def test_the_report_runs(tmp_path):
    csv = tmp_path / "before.csv"
    csv.write_text(table_3.as_csv({"base_ende": seeds(20.0, 21.0), "a_1_head": seeds(19.0)}))
    flags = [f"--runs={tmp_path}", f"--earlier={csv}", f"--output={tmp_path / 'out'}"]
    output_of("paper/report.py", *flags)
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"table_3.md", "table_3.csv", "table_3.png"}
