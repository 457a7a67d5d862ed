"""TensorBoard's event files, brought back to where a run goes on.

A run that was killed wrote of updates after its last checkpoint, which it now makes again, and
perhaps half a record. TensorBoard shows both, or neither, according to which reader it uses and
what the clock said when each file was named. So what stays is put into one file that sorts first.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from t2t_repro.files import sync

# TensorBoard reads files in the order of their names, in which TensorFlow puts the time.
_KEPT = "events.out.tfevents.0000000000.before.v2"
_PARTIAL = ".events.partial"
_FRAME_BYTES = 16  # Around a record: its length, and checksums of that and of the record.


def rewind(directory: Path, step: int, made_again: str | None = None) -> None:
    """Drops all events of updates after `step`; at 0 all events.

    A value that was written twice is kept once, the later one. May be killed at any time.

    Args:
        directory: where the event files are.
        step: that the run goes on after.
        made_again: how tags begin whose values of `step` itself are dropped too.
    """
    files = sorted(directory.glob("events.out.tfevents.*"))
    values = {}
    for path in files if step else ():
        for event in read_events(path):
            for value in event.summary.value:
                is_made_again = made_again and value.tag.startswith(made_again)
                if event.step < step + (not is_made_again):
                    values[event.step, value.tag] = tf.compat.v1.Event(
                        wall_time=event.wall_time, step=event.step, summary={"value": [value]}
                    )
    if values:
        aside = directory / _PARTIAL
        with tf.io.TFRecordWriter(str(aside)) as writer:
            version = tf.compat.v1.Event(file_version="brain.Event:2")
            writer.write(version.SerializeToString())
            for _, event in sorted(values.items(), key=lambda item: item[0][0]):
                writer.write(event.SerializeToString())
        sync(aside)
        os.replace(aside, directory / _KEPT)
        # Before those that it is made of are given up.
        sync(directory)
    for path in files:
        if path.name != _KEPT or not values:
            path.unlink()


def read_events(path: Path) -> Iterator[tf.compat.v1.Event]:
    """Yields the events of a file up to where it is torn, if it is.

    The records are cut here: TensorFlow allocates what the length of a record says.
    """
    with path.open("rb") as file:
        left = path.stat().st_size
        while (left := left - _FRAME_BYTES) >= 0:
            (length,) = struct.unpack("<Q4x", file.read(12))
            if length > left:
                return
            content, checksum = file.read(length), file.read(4)
            left -= length
            try:
                if struct.pack("<I", masked_crc32c(content)) != checksum:
                    return
                yield tf.compat.v1.Event.FromString(content)
            except DecodeError:
                return
