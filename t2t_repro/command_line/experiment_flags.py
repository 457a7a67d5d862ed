"""The flags of the verbs that read an experiment's gin file."""

from pathlib import Path

from absl import flags

from t2t_repro.command_line.path_flags import define_path


def define_experiment(is_required: bool = True) -> None:
    """Defines the flags of the verbs that read a gin file; the trainer can do without one."""
    text = "The experiment, e.g. gin/base_ende.gin."
    define_path("gin_file", None, text, is_required)
    flags.DEFINE_multi_string("gin_param", [], "A binding on top of it, e.g. 'train.seed = 2'.")
    define_path("data_dir", None, "For data; runs/<experiment>/data by default.")


def check_gin_file() -> None:
    """Says at once, before TensorFlow is imported, that --gin_file does not exist.

    Raises:
        UserError: it does not.
    """
    from t2t_repro.config.gin_files import find_gin_file, read_bindings

    given = flags.FLAGS.gin_file
    read_bindings(find_gin_file(given), f"--gin_file={given}")


def default_directory(name: str) -> Path:
    """Returns where an experiment keeps its "data" or "model" unless told otherwise."""
    return Path("runs") / Path(flags.FLAGS.gin_file).stem / name
