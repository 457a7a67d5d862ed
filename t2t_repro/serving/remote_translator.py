"""Translation by a server that speaks TensorFlow Serving's REST or gRPC."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tenacity

from t2t_repro.errors import UserError

_UNFILLED_BELOW = -1e6
"""Scores of places that beam search left empty are far below; no sentence's is."""


class Address(NamedTuple):
    """Where a model is served.

    Attributes:
        server: host:port, or for REST a URL that /v1/models comes behind.
        model_name: of the model.
        version: the version to ask; the newest for None.
        timeout: seconds to wait for an answer.
    """

    server: str
    model_name: str
    version: int | None
    timeout: float


class RemoteTranslation(NamedTuple):
    """One translation.

    Attributes:
        text: the sentence.
        score: log-probability divided by the length penalty, in nats.
    """

    text: str
    score: float


class Answer(NamedTuple):
    """What became of a sentence.

    Attributes:
        translations: the best first.
        is_truncated: whether only its beginning was translated.
    """

    translations: list[RemoteTranslation]
    is_truncated: bool


class TryAgainError(UserError):
    """No answer, but there may be one later: nobody listens, or the server is busy or ends."""


class Predictor(Protocol):
    """Makes one request."""

    def predict(self, signature: str, sentences: Sequence[str]) -> Mapping[str, Sequence[Any]]:
        """Asks for a signature's outputs, each with a row a sentence.

        Raises:
            UserError: there is no answer, or it is an error.
        """


class RemoteTranslator:
    """Translates sentences, a request a call; safe to call from many threads.

    Args:
        predictor: makes the requests.
        retries: how many times one is made again if it fails for a reason that may pass, each time
            after about twice as long a pause.
    """

    def __init__(self, predictor: Predictor, retries: int) -> None:
        self._predictor = predictor
        self._retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TryAgainError),
            stop=tenacity.stop_after_attempt(retries + 1),
            wait=tenacity.wait_random_exponential(multiplier=0.25, max=10),
            reraise=True,
        )

    def translate(self, sentences: Sequence[str], n_best: int = 1) -> list[Answer]:
        """Translates sentences.

        Args:
            sentences: as many as the server takes at once, most often 128.
            n_best: how many translations of each, at most the servable's beam.

        Raises:
            UserError: there is no answer, or it is an error, or not a translation of each.
        """
        signature = "serving_default" if n_best == 1 else "nbest"
        # A copy, as a Retrying keeps the state of its call.
        outputs = self._retry.copy()(self._predictor.predict, signature, sentences)
        columns = [outputs.get(name) for name in ("translation", "score", "truncated")]
        if any(column is None or len(column) != len(sentences) for column in columns):
            raise UserError(
                f"signature {signature} answered {sorted(outputs)}, expected translation, score "
                f"and truncated of {len(sentences)} sentences: is it one of t2t_repro.export?"
            )
        rows = zip(*columns, strict=True)
        return [_answer(texts, scores, truncated, n_best) for texts, scores, truncated in rows]


def _answer(texts: Any, scores: Any, truncated: Any, n_best: int) -> Answer:
    if n_best == 1:
        texts, scores = [texts], [scores]
    if len(texts) < n_best:
        raise UserError(f"--n_best={n_best}: the model gives {len(texts)} translations at most.")
    found = [
        RemoteTranslation(text, float(score))
        for text, score in zip(texts[:n_best], scores[:n_best], strict=True)
        if score > _UNFILLED_BELOW
    ]
    return Answer(found, bool(truncated))


def too_slow(address: Address) -> UserError:
    """The error of an answer that did not come."""
    return UserError(
        f"--server={address.server} gave no answer within --timeout={address.timeout:g} s: "
        "give it longer, or fewer sentences at once (--batch_size, --concurrency)."
    )


def no_server(address: Address, reason: object) -> TryAgainError:
    """The error of a server that was not reached."""
    return TryAgainError(
        f"--server={address.server} cannot be reached ({reason}): is a server running there? "
        "python -m t2t_repro.serve starts one."
    )
