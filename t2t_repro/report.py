"""Puts runs beside the paper's tables: `python -m t2t_repro.report --runs=runs`.

Table 3 from the runs of its rows, <runs>/<row>/model; with --output also as CSV and as a plot.
--table=2 prints Table 2, training cost, with the base and big models that --runs holds.
"""

from pathlib import Path

from absl import flags, logging

from t2t_repro import command_line
from t2t_repro.errors import UserError
from t2t_repro.quiet_start import import_tensorflow
from t2t_repro.text_lines import write_output
from t2t_repro.whole_files import whole_file

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the report on its flags."""
    import_tensorflow()
    from t2t_repro.analysis import ablation_report, training_cost
    from t2t_repro.analysis.run_record import read_run

    folder = Path(FLAGS.runs)
    if FLAGS.table == "2":
        runs = {name: read_run(folder / name / "model") for name in training_cost.OWN_RUNS}
        table = training_cost.table_2(training_cost.own_systems(runs))
        write_output(iter(table.splitlines()), None)
        return
    runs_of_rows = ablation_report.read_runs(folder)
    if others := ablation_report.other_sizes(runs_of_rows):
        logging.warning(others)
    markdown = ablation_report.as_markdown(runs_of_rows)
    write_output(iter(markdown.splitlines()), None)
    if FLAGS.output:
        output = Path(FLAGS.output)
        output.mkdir(parents=True, exist_ok=True)
        csv = ablation_report.as_csv(runs_of_rows)
        for name, text in (("table_3.md", markdown), ("table_3.csv", csv)):
            with whole_file(output / name) as aside:
                aside.write_text(text, encoding="utf-8")
        try:
            with whole_file(output / "table_3.png") as aside:
                ablation_report.write_plot(runs_of_rows, aside)
        except UserError as error:
            # The tables are there; what a plot lacks most often comes with later runs.
            logging.warning("%s is not drawn: %s", output / "table_3.png", error)


def cli() -> None:
    """Defines the flags, reads the command line, and reports."""
    command_line.define_path("runs", "runs", "The folder that holds the runs.")
    flags.DEFINE_enum("table", "3", ["2", "3"], "Which of the paper's tables.")
    command_line.define_path(
        "output", None, "A folder for table_3.md, table_3.csv and table_3.png."
    )
    command_line.run(main)


if __name__ == "__main__":
    cli()
