"""The corpora that a gin file can name; others are modules beside gin files, as in gin/."""

from t2t_repro.data.corpora.altered import Reversed
from t2t_repro.data.corpora.mixture import Mixture
from t2t_repro.data.corpora.text_files import TextFilesCorpus

__all__ = ["Mixture", "Reversed", "TextFilesCorpus"]
