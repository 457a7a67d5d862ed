"""Curves: those of runs' event files and of JSON lines, over updates and hours without pauses."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

import curve_files
import draw_curves
from curve_files import Point, read_curves
from draw_curves import Group, draw, groups_of, main

pytest.importorskip("matplotlib")
PNG = b"\x89PNG"


def write_run(folder, reports, started=1000.0):
    """A model directory of reports (step, seconds, tag, value); the first event is no scalar."""
    with tf.io.TFRecordWriter(str(folder / "tensorboard" / "events.out.tfevents.1.v2")) as writer:
        text = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "text"})
        scalar = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"})
        values = [(0, started, "configuration", "a = 1", text)]
        values += [(step, time, tag, value, scalar) for step, time, tag, value in reports]
        for step, time, tag, value, metadata in values:
            tensor = tf.make_tensor_proto(value)
            summary = tf.compat.v1.Summary(
                value=[tf.compat.v1.Summary.Value(tag=tag, tensor=tensor, metadata=metadata)]
            )
            event = tf.compat.v1.Event(wall_time=time, step=step, summary=summary)
            writer.write(event.SerializeToString())
    return folder


@pytest.fixture
def run(tmp_path):
    """Every hundredth update takes 36 s; an evaluation of 360 s every two hundred."""
    (tmp_path / "seed_1" / "model" / "tensorboard").mkdir(parents=True)
    reports, time = [], 1000.0
    for step in range(100, 1001, 100):
        time += 36
        reports.append((step, time, "train/loss", 1 / step))
        if step % 200 == 0:
            time += 360
            reports.append((step, time, "dev/bleu", float(step)))
    return tmp_path / "seed_1" / "model", reports


def hours_of(folder, tag):
    return [(point.step, pytest.approx(point.hours)) for point in read_curves(folder)[tag]]


def test_hours_begin_with_the_run_and_have_evaluations_in_them(run):
    folder, reports = run
    curves = read_curves(write_run(folder, reports))
    assert curves.keys() == {"train/loss", "dev/bleu"}
    assert [point[:2] for point in curves["dev/bleu"]] == [
        (200, pytest.approx(0.12)),
        (400, pytest.approx(0.24)),
        (600, pytest.approx(0.36)),
        (800, pytest.approx(0.48)),
        (1000, pytest.approx(0.6)),
    ]
    assert curves["train/loss"][2] == (300, pytest.approx(0.13), pytest.approx(1 / 300))


@pytest.mark.parametrize("pause", [200.0, 86_400.0, -86_400.0])
def test_pauses_are_taken_out(run, pause):
    folder, reports = run
    expected = hours_of(write_run(folder, reports), "train/loss")
    later = [(step, time + (step > 500) * pause, *rest) for step, time, *rest in reports]
    assert hours_of(write_run(folder, later), "train/loss") == expected


def test_what_is_merely_slow_counts(run):
    folder, reports = run
    slow = [(step, time + (step > 500) * 100, *rest) for step, time, *rest in reports]
    before = read_curves(write_run(folder, reports))["dev/bleu"][-1].hours
    after = read_curves(write_run(folder, slow))["dev/bleu"][-1].hours
    assert after == pytest.approx((before or 0.0) + 100 / 3600)


def test_several_runs_become_a_small_picture(run, tmp_path):
    folder, reports = run
    write_run(folder, reports)
    lines = [
        {"run": run, "tag": tag, "step": step, "hours": hours, "value": 1 / step}
        for run in ("seed 1", "seed 2")
        for tag, hours in (("train/loss", 0.1), ("dev/bleu", None))
        for step in (100, 200, 150)
    ]
    file = tmp_path / "theirs.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    output = tmp_path / "curves.png"
    arguments = [str(folder), f"--output={output}", "--charts", "train/loss", "dev/bleu"]
    main([*arguments, "--by", "updates", "hours", "--runs", "theirs", str(file)])
    assert output.read_bytes().startswith(PNG)
    assert output.stat().st_size < 60_000

    alone, theirs = groups_of([folder], [["theirs", str(file)]])
    assert alone.name == "seed_1"
    assert theirs.name == "theirs (2 runs)"
    assert [point.step for point in theirs.runs[1]["dev/bleu"]] == [100, 150, 200]
    assert [group.name for group in groups_of([file], [])] == ["seed 1", "seed 2"]


def test_a_figure_has_a_line_for_every_run_and_their_mean(run):
    curves = {
        "dev/bleu": [Point(1, 0.5, 10.0), Point(3, None, 30.0)],
    }
    longer = {"dev/bleu": [Point(step, step / 2, 20.0) for step in (1, 2, 3, 4)]}
    group = Group("both", [curves, longer, {"train/loss": []}])
    figure = draw([group], ["dev/bleu"], ["updates", "hours"])
    by_updates, by_hours = figure.axes
    first, second, mean = (np.asarray(line.get_xydata()).tolist() for line in by_updates.lines)
    assert first == [[1, 10], [3, 30]]
    assert len(second) == 4
    assert mean == [[1, 15], [3, 25]]
    # Where hours are not known there is no point, and of one point no mean but there.
    assert [np.asarray(line.get_xdata()).tolist() for line in by_hours.lines] == [
        [0.5],
        [0.5, 1, 1.5, 2],
        [0.5],
    ]


def test_the_thick_line_of_a_loss_is_a_running_mean():
    values = [10.0, 1.0] * 30
    run = {"train/loss": [Point(step, None, value) for step, value in enumerate(values)]}
    figure = draw([Group("one", [run])], ["train/loss"], ["updates"])
    thin, thick = (np.asarray(line.get_ydata()) for line in figure.axes[0].lines)
    assert thin.tolist() == values
    assert (thick[0], thick[-1]) == (pytest.approx(10), pytest.approx(1))
    assert thick[10] == pytest.approx(10 ** (3 / 5))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"run": "a", "tag": "dev/bleu", "step": 1, "hours": 0.1}', "line 1 of"),
        ("no JSON", "line 1 of"),
        ("", "has no curves"),
        ('{"run": "a", "tag": "x", "step": 1, "hours": 0.1, "value": 1}', "may be x"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(tmp_path, capsys, content, said):
    file, output = tmp_path / "a.jsonl", tmp_path / "a.png"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        main([str(file), f"--output={output}"])
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.log"], "none.log has no curves: "),
        (["none"], "none has no curves: "),
        (["--runs", "ours"], "--runs ours names no run: give --runs NAME PATH ..."),
        (["none", "--output=none/a.png"], "--output: there is no folder none"),
        ([], "nothing to draw"),
    ],
)
def test_what_is_not_there_is_one_line(tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["--output=a.png", *arguments])
    assert f"error: {said}" in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_picture_is_replaced_as_a_whole(run, tmp_path, monkeypatch):
    folder, reports = run
    output = tmp_path / "a.png"
    arguments = [str(write_run(folder, reports)), f"--output={output}", "--charts", "dev/bleu"]
    main(arguments)
    before = output.read_bytes()

    def killed(_, file, **__):
        file.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("PIL.Image.Image.save", killed)
    with pytest.raises(KeyboardInterrupt):
        main(arguments)
    assert output.read_bytes() == before
    assert [path.name for path in tmp_path.glob("*a.png*")] == ["a.png"]


# Clock, kind, and figures of a log's lines.
FAIRSEQ = [
    ("22 10:36:00", "train_inner", {"nll_loss": "2", "num_updates": "50", "lr": "0.001"}),
    ("22 10:40:00", "valid", {"valid_nll_loss": "3", "valid_num_updates": "62", "epoch": 1}),
    ("22 11:12:00", "train_inner", {"nll_loss": "9", "num_updates": "100", "lr": "0.002"}),
    ("22 11:12:01", "train", {"train_nll_loss": "7", "train_num_updates": "124"}),
    ("22 11:16:00", "train_inner", {"nll_loss": "1", "num_updates": "100", "lr": "0.002"}),
    ("23 11:52:00", "train_inner", {"nll_loss": "0.5", "num_updates": "150", "lr": "0.003"}),
]


def test_a_log_of_fairseq_s_is_read_in_nats_and_without_pauses(tmp_path):
    log = tmp_path / "train.log"
    lines = ["2026-11-22 10:00:00 | INFO | fairseq_cli.train | {'task': {'data': 'binary'}}"]
    for clock, kind, figures in FAIRSEQ:
        lines.append(f"2026-11-{clock} | INFO | {kind} | {json.dumps(figures)}")
    log.write_text("\n".join(lines), encoding="utf-8")
    (curves,) = curve_files.read_run(log).values()
    assert curves.keys() == {"train/nll", "train/learning_rate", "dev/nll"}
    steps, hours, nll = zip(*curves["train/nll"], strict=True)
    assert steps == (50, 100, 150)
    assert nll == tuple(pytest.approx(bits * math.log(2)) for bits in (2, 1, 0.5))
    # The night between the last two lines counts as 36 minutes, as long as the others took.
    assert hours == (pytest.approx(0.6), pytest.approx(19 / 15), pytest.approx(28 / 15))
    assert curves["dev/nll"] == [(62, pytest.approx(2 / 3), pytest.approx(3 * math.log(2)))]


def test_labels_are_what_paths_do_not_share(tmp_path):
    paths = [tmp_path / "tiny" / f"seed_{seed}" / "model" for seed in (1, 2)]
    assert draw_curves._labels(paths) == ["seed_1", "seed_2"]
    assert draw_curves._labels([]) == []
