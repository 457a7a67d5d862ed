"""Names of CTranslate2's weights, which export and import share.

CTranslate2 stores matrices as [outputs, inputs], the transpose of ours. Projections of the same
input are one matrix there, one below the other.
"""

from t2t_repro.formats.imported import WeightNames, table_of
from t2t_repro.runs.weights import LayerWeight

MODEL, CONFIG = "model.bin", "config.json"

SOURCE, TARGET = "encoder/embeddings_0/weight", "decoder/embeddings/weight"
SOFTMAX, LOGITS_BIAS = "decoder/projection/weight", "decoder/projection/bias"
# Names of the tables of positions, and ours.
POSITIONS = {
    "encoder/position_encodings/encodings": "positional_encoding/table",
    "decoder/position_encodings/encodings": "target_positional_encoding/table",
}

SETTINGS = table_of("ctranslate2/settings.yml")
# Numbers of CTranslate2's activations, by Keras's names.
ACTIVATIONS: dict[str, int] = SETTINGS["activations"]

_NAMES = WeightNames("ctranslate2")


def place_of(weight: LayerWeight) -> tuple[str, int, int]:
    """Finds where CTranslate2 stores a layer's weight.

    Returns:
        the name of the matrix that holds it; its index among the parts of that matrix, one below
        the other; the number of parts. The key of a self-attention has index 1 of 3.
    """
    names = _NAMES.table[weight.sublayer or "stack"]
    parts = [part for part, name in names.items() if name == names[weight.part]]
    return _NAMES.of(weight), parts.index(weight.part), len(parts)


def scale_of(weight: LayerWeight) -> str:
    """Returns the name of the scalar by which a weight's attention multiplies its queries."""
    return _NAMES.of(weight._replace(part="scale"))
