"""Puts runs beside the paper's tables: `python -m t2t_repro.report --runs=runs`.

Table 3 from the runs of its rows, <runs>/<row>/model, or <runs>/<row>/seed_1/model, ... for several
seeds: mean, spread, and which of the paper's findings stand out from the spread. With --output also
as CSV and as a plot. Such a CSV of another machine, or of before, is read by --earlier: its runs
count, too, but for those that --runs has of the same row and seed.

--table=2 prints Table 2, training cost, with the base and big models that --runs holds.
--table=scores prints mean and spread of what evaluate found of the runs of one experiment,
<runs>/seed_1/model, <runs>/seed_2/model, ...:

    python -m t2t_repro.report --table=scores --runs=runs/multi30k_tiny
"""

from pathlib import Path

from absl import flags, logging

from t2t_repro.command_line.path_flags import define_path
from t2t_repro.command_line.program import run
from t2t_repro.command_line.quiet_start import import_tensorflow
from t2t_repro.command_line.text_lines import write_output
from t2t_repro.errors import UserError
from t2t_repro.files import whole_file

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the report on its flags."""
    if FLAGS.earlier and FLAGS.table != "3":
        raise UserError(f"--earlier is for --table=3, and not for --table={FLAGS.table}.")
    if FLAGS.output and Path(FLAGS.output).is_file():
        raise UserError(f"--output={FLAGS.output} is a file: give a folder, for several of them.")
    import_tensorflow()
    folder = Path(FLAGS.runs)
    if FLAGS.table == "3":
        _report_table_3(folder)
    else:
        lines = _table_2(folder) if FLAGS.table == "2" else _scores(folder)
        write_output(iter(lines), None)


def _table_2(folder: Path) -> list[str]:
    from t2t_repro.analysis import training_cost
    from t2t_repro.analysis.run_record import read_run

    runs = {name: read_run(folder / name / "model") for name in training_cost.OWN_RUNS}
    return training_cost.table_2(training_cost.own_systems(runs)).splitlines()


def _scores(folder: Path) -> list[str]:
    from t2t_repro.analysis import seeds

    for doubt in seeds.other_differences([*seeds.model_directories(folder).values()]):
        logging.warning(doubt)
    return seeds.score_tables(folder)


def _report_table_3(folder: Path) -> None:
    from t2t_repro.analysis import ablation_plot, ablation_report, table_3_csv, table_3_runs

    earlier = table_3_csv.read_csv(Path(FLAGS.earlier)) if FLAGS.earlier else {}
    runs = table_3_runs.read_runs(folder, earlier)
    for doubt in table_3_runs.doubts(folder, runs):
        logging.warning(doubt)
    markdown = ablation_report.as_markdown(runs)
    write_output(iter(markdown.splitlines()), None)
    if FLAGS.output:
        output = Path(FLAGS.output)
        output.mkdir(parents=True, exist_ok=True)
        csv = table_3_csv.as_csv(runs)
        for name, text in (("table_3.md", markdown), ("table_3.csv", csv)):
            with whole_file(output / name) as aside:
                aside.write_text(text, encoding="utf-8")
        try:
            with whole_file(output / "table_3.png") as aside:
                ablation_plot.write_plot(runs, aside)
        except UserError as error:
            # The tables are there; what a plot lacks most often comes with later runs.
            logging.warning("%s is not drawn: %s", output / "table_3.png", error)


def cli() -> None:
    """Defines the flags, reads the command line, and reports."""
    define_path("runs", "runs", "The folder that holds the runs.")
    flags.DEFINE_enum(
        "table",
        "3",
        ["2", "3", "scores"],
        "Which of the paper's tables; or the scores of the runs that --runs holds.",
    )
    define_path("output", None, "A folder for table_3.md, table_3.csv and table_3.png.")
    define_path(
        "earlier", None, "A table_3.csv whose runs count, too, where --runs has none of them."
    )
    run(main)


if __name__ == "__main__":
    cli()
