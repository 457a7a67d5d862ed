import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t_repro.errors import UserError
from t2t_repro.serving.loaded_model import LoadedModel
from t2t_repro.strangers.graph import check_graph


def test_a_servable_that_reads_files(tmp_path):
    module = tf.Module()
    specification = tf.TensorSpec([], tf.string)
    module.read = tf.function(tf.io.read_file, input_signature=[specification])
    tf.saved_model.save(module, str(tmp_path / "1"))
    with pytest.raises(UserError, match="has the operations ReadFile"):
        LoadedModel(tmp_path / "1")


def test_a_servable_whose_index_is_damaged(tmp_path):
    module = tf.Module()
    module.variable = tf.Variable([1.0, 2.0])
    tf.saved_model.save(module, str(tmp_path / "1"))
    (graph,) = SavedModel.FromString((tmp_path / "1" / "saved_model.pb").read_bytes()).meta_graphs
    check_graph(tmp_path / "1", graph)
    (tmp_path / "1" / "variables" / "variables.index").write_bytes(b"x")
    with pytest.raises(UserError, match="is not the index"):
        LoadedModel(tmp_path / "1")
