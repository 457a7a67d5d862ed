"""TensorBoard's event files, brought back to where a run goes on.

A run that was killed wrote of updates after its last checkpoint, which it now makes again, and
perhaps half a record. TensorBoard shows both, or neither, according to which reader it uses and
what the clock said when each file was named. So what stays is put into one file that sorts first.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

# TensorBoard reads files in the order of their names, in which TensorFlow puts the time.
_KEPT = "events.out.tfevents.0000000000.before.v2"
_PARTIAL = ".events.partial"


def rewind(directory: Path, step: int, made_again: str | None = None) -> None:
    """Drops everything that was written of updates after `step`, and at 0 everything.

    Whatever was written twice is kept once, as it was written last. May itself be killed.

    Args:
        directory: where the event files are.
        step: that the run goes on after.
        made_again: what of `step` itself is dropped as well: tags that begin so.
    """
    files = sorted(directory.glob("events.out.tfevents.*"))
    values = {}
    for path in files if step else ():
        for event in _events(path):
            for value in event.summary.value:
                is_made_again = made_again and value.tag.startswith(made_again)
                if event.step < step + (not is_made_again):
                    values[event.step, value.tag] = _alone(event, value)
    if values:
        aside = directory / _PARTIAL
        with tf.io.TFRecordWriter(str(aside)) as writer:
            version = tf.compat.v1.Event(file_version="brain.Event:2")
            writer.write(version.SerializeToString())
            for _, event in sorted(values.items(), key=lambda item: item[0][0]):
                writer.write(event.SerializeToString())
        os.replace(aside, directory / _KEPT)
    for path in files:
        if path.name != _KEPT or not values:
            path.unlink()


def _events(path: Path) -> Iterator[tf.compat.v1.Event]:
    """The events of a file up to where it is torn, if it is."""
    try:
        yield from tf.compat.v1.train.summary_iterator(str(path))
    except tf.errors.DataLossError:
        return


def _alone(event: tf.compat.v1.Event, value: tf.compat.v1.Summary.Value) -> tf.compat.v1.Event:
    """An event that holds one of the values of another."""
    summary = tf.compat.v1.Summary(value=[value])
    return tf.compat.v1.Event(wall_time=event.wall_time, step=event.step, summary=summary)
