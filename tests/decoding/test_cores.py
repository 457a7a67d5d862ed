import subprocess
import sys

import tensorflow as tf

from t2t_repro.decoding import cores

PROGRAM = """
import tensorflow as tf
from t2t_repro.decoding.cores import one_core_a_batch
one_core_a_batch()
print(tf.config.threading.get_intra_op_parallelism_threads(), int(tf.constant(1) + 1))
"""


def test_an_operation_runs_on_one_core():
    command = [sys.executable, "-c", PROGRAM]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()[-2:] == [
        b"1",
        b"2",
    ]


def test_on_a_gpu_a_batch_is_decoded_at_a_time(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    # TensorFlow has begun already, and would refuse other threads.
    cores.one_core_a_batch()
    assert cores.idle_workers() == 1
