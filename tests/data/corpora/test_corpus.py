"""The list of corpora that gin knows."""

from pathlib import Path

import gin

from t2t_repro.data import corpora


def test_every_corpus_can_be_named_in_a_gin_file():
    for name in corpora.__all__:
        assert gin.config.get_configurable(name) is getattr(corpora, name)
    listed = {getattr(corpora, name).__module__ for name in corpora.__all__}
    (folder,) = corpora.__path__
    for path in Path(folder).glob("*.py"):
        if "@gin.configurable" in path.read_text():
            assert f"{corpora.__name__}.{path.stem}" in listed
