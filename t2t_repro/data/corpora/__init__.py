"""The corpora that a gin file can name; a new one is a file here and a line below."""

from t2t_repro.data.corpora.altered import NoisedSource, Reversed
from t2t_repro.data.corpora.mixture import Mixture
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.corpora.tfds import TfdsCorpus

__all__ = ["Mixture", "NoisedSource", "Reversed", "TextFilesCorpus", "TfdsCorpus"]
