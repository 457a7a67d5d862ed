"""Names of CTranslate2's weights, which export and import share.

CTranslate2 stores matrices as [outputs, inputs], the transpose of ours. Projections of the same
input are one matrix there, one below the other.
"""

from t2t_repro.formats.imported import WeightNames, table_of
from t2t_repro.runs.weights import LayerWeight

MODEL, CONFIG = "model.bin", "config.json"

SOURCE, TARGET = "encoder/embeddings_0/weight", "decoder/embeddings/weight"
SOFTMAX, LOGITS_BIAS = "decoder/projection/weight", "decoder/projection/bias"
POSITIONS = {
    "encoder/position_encodings/encodings": "positional_encoding/table",
    "decoder/position_encodings/encodings": "target_positional_encoding/table",
}
"""Names of the tables of positions, and ours."""

SETTINGS = table_of("ctranslate2/settings.yml")
ACTIVATIONS: dict[str, int] = SETTINGS["activations"]
"""Numbers of CTranslate2's activations, by Keras's names."""

_NAMES = WeightNames("ctranslate2")


def place_of(weight: LayerWeight) -> tuple[str, int, int]:
    """Returns the place of a layer's weight.

    Returns:
        the name of the matrix that it is a part of, the number of that part, from 0, and the
        number of parts, one below the other.
    """
    names = _NAMES.table[weight.sublayer or "stack"]
    parts = [part for part, name in names.items() if name == names[weight.part]]
    return _NAMES.of(weight), parts.index(weight.part), len(parts)


def scale_of(weight: LayerWeight) -> str:
    """Returns the name of the queries' factor in a weight's sub-layer."""
    return _NAMES.of(weight._replace(part="scale"))
