"""What a checkpoint stores of which object, from the graph of objects that TensorFlow keeps in it.

Variables' own names say nothing: where an optimizer is stored too, it is the shorter way to some.
"""

from collections.abc import Collection

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from t2t_repro.errors import UserError
from t2t_repro.strangers.checkpoint_index import check_index

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class CheckpointObjects:
    """The objects that a checkpoint was written of, and the shapes of their variables.

    Args:
        prefix: of the checkpoint: its path without the endings of its files.

    Raises:
        UserError: it is no whole checkpoint, see `check_index`, or one without objects.
    """

    def __init__(self, prefix: str) -> None:
        self._shapes = check_index(prefix)
        try:
            content = tf.train.load_checkpoint(prefix).get_tensor(_GRAPH)
            self._nodes = TrackableObjectGraph.FromString(content).nodes
        except (ValueError, TypeError, DecodeError, tf.errors.OpError) as error:
            raise UserError(
                f"{prefix} does not say what it is of: copy the checkpoint again, or give another."
            ) from error

    def shape(self, path: str) -> tuple[int, ...] | None:
        """Returns the shape of a variable, such as "model/embedding/table"; None without it."""
        keys = [
            attribute.checkpoint_key
            for number in self._find(path)
            for attribute in self._nodes[number].attributes
        ]
        return self._shapes.get(keys[0]) if len(keys) == 1 else None

    def parts(self, path: str) -> Collection[str]:
        """Returns the names of what an object, such as "model", consists of."""
        return {
            child.local_name
            for number in self._find(path)
            for child in self._nodes[number].children
        }

    def _find(self, path: str) -> list[int]:
        """The number of the node that a path leads to from the first, if it leads anywhere."""
        found = [0] if self._nodes else []
        for name in path.split("/"):
            found = [
                child.node_id
                for number in found
                for child in self._nodes[number].children
                if child.local_name == name and 0 <= child.node_id < len(self._nodes)
            ][:1]
        return found
