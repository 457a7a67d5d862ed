"""tf.data pipelines that TensorFlow does not tune while they run."""

from typing import TypeVar

import tensorflow as tf

_Dataset = TypeVar("_Dataset", bound=tf.data.Dataset)


def untuned(dataset: _Dataset) -> _Dataset:
    """Returns the data set, without tf.data's autotuning: its end comes when its last element does.

    TensorFlow's tuner is a thread that sleeps twice as long each time, a minute at most. Whoever
    ends an iterator waits for it, and in TensorFlow 2.21 the signal that should wake it is now and
    then lost: the loop over the data then ends after up to twice its time. Our pipelines say
    themselves how many threads they want, so there is nothing to tune.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
