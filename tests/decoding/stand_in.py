"""A stand-in for a model: a function of each text, and a record of what it was asked."""

from t2t_repro.decoding.search import Translation


class StandIn:
    """Translates texts by a function of each; `asked` has all texts so far."""

    def __init__(self, translate):
        self.translate = translate
        self.asked = []

    def __call__(self, texts):
        self.asked += texts
        return [Translation(self.translate(text), -1.0) for text in texts]
