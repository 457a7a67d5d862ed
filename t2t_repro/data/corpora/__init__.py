"""The corpora that a gin file can name; others are modules beside gin files, as in gin/."""

from t2t_repro.data.corpora.mixture import Mixture, Reversed
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.corpora.tfds import TfdsCorpus

__all__ = ["Mixture", "Reversed", "TextFilesCorpus", "TfdsCorpus"]
