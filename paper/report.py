"""Puts runs beside the paper's tables: `python paper/report.py --runs=runs`.

Table 3 from the runs of its rows, <runs>/<row>/model, or <runs>/<row>/seed_1/model, ... for several
seeds: mean, spread, and which findings of the paper they show. --output also writes it as CSV and
as a plot. --earlier reads such a CSV of another machine: its runs count as well.

--table=2 prints Table 2, training cost, with the base and big models in --runs. --table=scores
prints mean and spread of the scores of one experiment, <runs>/seed_1/model, seed_2/model, ..., or
of all experiments in <runs>. It is the default where <runs> has no row of Table 3.
"""

from pathlib import Path

from absl import flags, logging

from t2t_repro.command_line.program import run

FLAGS = flags.FLAGS


def main() -> None:
    """Runs the report on its flags."""
    folder = Path(FLAGS.runs)
    if FLAGS.table == "3" or (FLAGS.table is None and (FLAGS.earlier or _has_rows(folder))):
        _report_table_3(folder)
    elif FLAGS.table == "2":
        import table_2
        from runs import read_run

        runs = {name: read_run(folder / name / "model") for name in table_2.OWN_RUNS}
        print(table_2.table_2(table_2.own_systems(runs)))
    else:
        from runs import score_tables

        print("\n".join(score_tables(folder)))


def _has_rows(folder: Path) -> bool:
    from runs import model_directories
    from table_3 import TABLE_3

    return any(model_directories(folder / row.name) for row in TABLE_3)


def _report_table_3(folder: Path) -> None:
    import findings
    import table_3
    import table_3_plot

    earlier = table_3.read_csv(Path(FLAGS.earlier)) if FLAGS.earlier else {}
    runs = table_3.read_runs(folder, earlier)
    for warning in table_3.other_sizes(runs):
        logging.warning(warning)
    markdown = "\n".join([table_3.as_markdown(runs), *findings.as_markdown(runs), ""])
    print(markdown)
    if FLAGS.output:
        output = Path(FLAGS.output)
        output.mkdir(parents=True, exist_ok=True)
        (output / "table_3.md").write_text(markdown, encoding="utf-8")
        (output / "table_3.csv").write_text(table_3.as_csv(runs), encoding="utf-8")
        if table_3.BASE in table_3.samples(runs, table_3.BLEU):
            table_3_plot.write_plot(runs, output / "table_3.png")


def cli() -> None:
    """Defines the flags, reads the command line, and reports."""
    flags.DEFINE_string("runs", "runs", "The folder that holds the runs.")
    flags.DEFINE_enum("table", None, ["2", "3", "scores"], "A table of the paper, or scores.")
    flags.DEFINE_string("output", None, "A folder for table_3.md, table_3.csv and table_3.png.")
    flags.DEFINE_string("earlier", None, "A table_3.csv whose runs count as well.")
    run(main)


if __name__ == "__main__":
    cli()
