"""T2T's target space: a vector that it adds to the encoder's input at every position.

T2T's Transformer looks it up in a table of 32 rows, one for each kind of text that it may be asked
to write ("target_space_embedding"). A model of one task trains one of them. The paper has no such
thing, and needs none: a vector added at every position is a different table of positions.
"""

import numpy as np
from keras import ops
from numpy.typing import NDArray

from t2t_repro.model.transformer import Transformer

MAX_LENGTH = 2048
"""Positions of the table: eight times what T2T trained on, and 4 megabytes in the base model."""


def with_source_vector(model: Transformer, vector: NDArray[np.float32]) -> Transformer:
    """The same model, but for a vector added to the encoder's input.

    Its positions are tables, as learned ones are, of `MAX_LENGTH` rows: what the model encoded
    positions by, for the source with the vector added.

    Args:
        model: built, with the paper's tied embeddings and sinusoids, and no bias on the logits, as
            T2T's are.
        vector: [d_model].

    Returns:
        A new model with the weights of `model`.
    """
    config = {**model.get_config(), "positional_encoding": "learned", "max_length": MAX_LENGTH}
    moved = Transformer.from_config(config)
    moved.build()
    for part in ("embedding", "encoder", "decoder"):
        getattr(moved, part).set_weights(getattr(model, part).get_weights())
    signal = np.asarray(model.positional_encoding.encode(ops.arange(MAX_LENGTH)))
    moved.positional_encoding.table.assign(signal + vector)
    moved.target_positional_encoding.table.assign(signal)
    return moved
