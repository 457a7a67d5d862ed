"""The corpora that a gin file can name; a new one is a file of its own here, and a line below."""

from t2t_repro.data.corpora.altered import Reversed
from t2t_repro.data.corpora.generated import GeneratedCorpus
from t2t_repro.data.corpora.mixture import Mixture
from t2t_repro.data.corpora.multi30k import Multi30kCorpus
from t2t_repro.data.corpora.noise import NoisedSource
from t2t_repro.data.corpora.text_files import TextFilesCorpus
from t2t_repro.data.corpora.tfds import TfdsCorpus
from t2t_repro.parsing.treebank import TreebankCorpus

__all__ = [
    "GeneratedCorpus",
    "Mixture",
    "Multi30kCorpus",
    "NoisedSource",
    "Reversed",
    "TextFilesCorpus",
    "TfdsCorpus",
    "TreebankCorpus",
]
