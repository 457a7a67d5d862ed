"""Builds our `Transformer` of the files of a Marian model, as Hugging Face saves it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from t2t_repro.data.marian_text import MarianSide, MarianText
from t2t_repro.errors import UserError
from t2t_repro.models.marian_config import MarianConfig, read_marian_config
from t2t_repro.models.marian_weights import load_weights, weights_of
from t2t_repro.models.transformer import Transformer
from t2t_repro.strangers.safetensors_file import SafetensorsFile
from t2t_repro.strangers.weights_file import WeightsFile
