"""Translation by a server that speaks TensorFlow Serving's REST or gRPC."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tenacity

from t2t_repro.errors import UserError


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
        names = ["translation", "score", "truncated", *(["count"] if n_best > 1 else [])]
        # A copy, as a Retrying keeps the state of its call.
        outputs = self._retry.copy()(self._predictor.predict, signature, sentences)
        columns = [outputs.get(name) for name in names]
        if any(column is None or len(column) != len(sentences) for column in columns):
            raise UserError(
                f"signature {signature} answered {sorted(outputs)}, expected {', '.join(names)} of "
                f"{len(sentences)} sentences: is it one of t2t_repro.export?"
            )
        rows = zip(*columns, strict=True)
        if n_best == 1:
            return [_answer([text], [score], truncated) for text, score, truncated in rows]
        return [
            _answer(_best(texts, n_best)[:count], scores, truncated)
            for texts, scores, truncated, count in rows
        ]


def _best(texts: Sequence[str], n_best: int) -> Sequence[str]:
    if len(texts) < n_best:
        raise UserError(f"--n_best={n_best}: the model gives {len(texts)} translations at most.")
    return texts[:n_best]


def _answer(texts: Sequence[str], scores: Sequence[float], truncated: bool) -> Answer:
    found = zip(texts, scores, strict=False)
    return Answer([RemoteTranslation(text, float(score)) for text, score in found], bool(truncated))


def not_served(address: Address, reason: str) -> UserError:
    """The error of a server that has no such model."""
    version = "" if address.version is None else f", --version={address.version}"
    return UserError(
        f"--server={address.server} serves no --model_name={address.model_name}{version} "
        f"({reason}): give the name, and a version, that it was started with."
    )


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
