"""Answers requests of TensorFlow Serving's REST interface: their JSON, and their queue.

Row form:     {"instances": [text or {name: text}, ...]}  -> {"predictions": [{name: value}, ...]}
Column form:  {"inputs": [text, ...] or {name: [text, ...]}}  -> {"outputs": {name: [value, ...]}}

"signature_name" is "serving_default" by default. Names of signatures, inputs and outputs are those
of the SavedModel, see docs/serving.md.
"""

import asyncio
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from t2t_repro.config.values import short, texts
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.search import UNFILLED_SCORE, Translation, log_cut
from t2t_repro.decoding.sentences import translate_split
from t2t_repro.errors import UserError

Columns = dict[str, list[Any]]
"""A list of values for each input or output, one value a row."""

_Function = Callable[..., Columns]

OUTPUTS = ("translation", *Translation._fields[1:])
"""The output columns; the last is the same for all translations of a text."""

# Two lengths are similar if the longer is at most twice the shorter, plus so many characters.
_SIMILAR_CHARACTERS = 40


def read_api_key() -> str | None:
    """Returns the server's key, the environment variable T2T_API_KEY; None if it is not set.

    It is not a flag, since everybody on the machine can list flags.

    Raises:
        UserError: the key is empty, or cannot be sent in a header.
    """
    key = os.environ.get("T2T_API_KEY")
    # `split` finds one word unless the key is empty or has white space.
    if key is not None and (not key.isascii() or not key.isprintable() or key.split() != [key]):
        raise UserError("T2T_API_KEY is empty or not one word in ASCII: set another, or unset it.")
    return key


def read_request(
    body: bytes, signatures: Mapping[str, Sequence[str]], max_rows: int
) -> tuple[str, Columns, bool]:
    """Reads a request in row form or column form.

    Args:
        body: JSON.
        signatures: the names of the inputs of each signature.
        max_rows: the most rows of a request.

    Returns:
        its signature, the texts of each input, and whether the answer is in row form.

    Raises:
        UserError: the body is not a request to one of the signatures.
    """
    document = read_json(body)
    signature = str(document.get("signature_name", "serving_default"))
    if signature not in signatures:
        expected = ", ".join(signatures)
        raise UserError(f"signature_name is {short(signature)}, expected one of {expected}")
    names = signatures[signature]
    in_rows = "instances" in document
    columns = _read_columns(document, names)
    is_complete = columns.keys() == {*names} and all(isinstance(c, list) for c in columns.values())
    has_both_forms = in_rows and "inputs" in document
    if not is_complete or len({*map(len, columns.values())}) > 1 or has_both_forms:
        problem = f"received {short(document)}, expected 'instances' or 'inputs'"
        raise UserError(f"{problem}, equally many texts for {' and '.join(names)}")
    checked = {name: texts(f"input {name}", column) for name, column in columns.items()}
    rows = len(checked[names[0]])
    if rows > max_rows:
        raise UserError(f"received {rows} rows, expected at most {max_rows}: send several requests")
    return signature, checked, in_rows


def _read_columns(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Returns the values of each input in a request; neither names nor values are checked.

    {"instances": ["A", "B"]} gives {"source": ["A", "B"]}. What an input has is not a list if the
    request is wrong; if "instances" is not a list, there are no inputs.
    """
    # A value without a name is that of the first input.
    if "instances" not in document:
        inputs = document.get("inputs")
        return inputs if isinstance(inputs, dict) else {names[0]: inputs}
    if not isinstance(document["instances"], list):
        return {}
    rows = [row if isinstance(row, dict) else {names[0]: row} for row in document["instances"]]
    # Unknown names of any row become columns too, which the caller refuses.
    return {name: [row.get(name) for row in rows] for name in {*names}.union(*rows)}


def read_json(body: bytes) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        UserError: the body is not JSON, or not an object.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UserError(f"received {short(document)}, expected a JSON object")
    return document


def write_answer(outputs: Columns, in_rows: bool) -> bytes:
    """Encodes the answer to a request as JSON in UTF-8, in row form if the request was."""
    answer: dict[str, Any] = {"outputs": outputs}
    if in_rows:
        rows = zip(*outputs.values(), strict=True)
        # Each row by the names of the outputs.
        answer = {"predictions": [dict(zip(outputs, row, strict=True)) for row in rows]}
    return json.dumps(answer, ensure_ascii=False).encode()


class Answers:
    """Computes the outputs of signatures from their inputs, with an `Engine`.

    Args:
        engine: called by several threads, so it should have one worker.
        language: the language by which texts are split into sentences; None for whole texts. With
            a language, "nbest" has one translation of each text, and "prefix" is not served.

    Attributes:
        signatures: the function of each signature, by its name.
        inputs: the names of the inputs of each signature.
    """

    def __init__(self, engine: Engine, language: str | None = None) -> None:
        self._engine = engine
        self._language = language
        self.signatures: dict[str, _Function] = {"serving_default": self.translate}
        self.signatures["nbest"] = self.translate_n_best
        self.inputs = {"serving_default": ["source"], "nbest": ["source"]}
        if engine.score:
            self.signatures["score"] = partial(_scores, engine.score)
            self.inputs["score"] = ["source", "target"]
        # An engine that does not score takes no prefixes either.
        if engine.score and language is None:
            self.signatures["prefix"] = self.translate
            self.inputs["prefix"] = ["source", "prefix"]

    def translate(self, source: Sequence[str], prefix: Sequence[str] | None = None) -> Columns:
        """Returns the `OUTPUTS` of each text's best translation, which begins with its prefix.

        Without prefixes, it may begin with anything.
        """
        return _columns([best for best, *_ in self._translations(source, 1, prefix)])

    def translate_n_best(self, source: Sequence[str]) -> Columns:
        """Returns lists of the `OUTPUTS` of each text's translations in the beam.

        All lists have the size of the beam; only the first `count` translations are real.
        `truncated` is a single value for each text.
        """
        n_best = self._engine.beam_size
        lists = self._translations(source, n_best)
        filler = Translation("", UNFILLED_SCORE)
        filled = [[*real, *[filler] * (n_best - len(real))] for real in lists]
        # For each text, its outputs by name, each a list with a value for each translation.
        rows = [_columns(translations) for translations in filled]
        outputs: Columns = {name: [row[name] for row in rows] for name in OUTPUTS}
        # A single value replaces the list of each text.
        outputs["truncated"] = [best.truncated for best, *_ in lists]
        return outputs | {"count": [len(real) for real in lists]}

    def _translations(
        self, source: Sequence[str], n_best: int, prefix: Sequence[str] | None = None
    ) -> list[list[Translation]]:
        """Returns the translations of each text, best first, and logs the texts that are cut off.

        Without a language there are `n_best`, or fewer if the beam has no more. With a language,
        texts are translated sentence by sentence: each has one translation, and `prefix` is None.
        """
        if self._language is not None:
            lists = [[best] for best in translate_split(self._engine, source, self._language)]
        else:
            lists = self._engine.translate(source, n_best, prefix, first=None)
        log_cut([best for best, *_ in lists])
        return lists


def _scores(score: Callable[..., list], source: Sequence[str], target: Sequence[str]) -> Columns:
    """Returns the outputs of the signature "score".

    Args:
        score: the method of an `Engine`; it returns a `PairScore` of each pair.
        source: the texts.
        target: a translation of each.
    """
    # Warnings must not give line numbers: a request has no lines.
    scores = score(source, target, first=None)
    return {
        "log_probability": [pair.log_probability for pair in scores],
        "length": [len(pair.subwords) for pair in scores],
        "truncated": [pair.truncated for pair in scores],
    }


def _columns(translations: Sequence[Translation]) -> Columns:
    """Returns the outputs of translations, by name; they are the fields of `Translation`."""
    # By index, since the field `text` is the output "translation".
    return {name: [fields[i] for fields in translations] for i, name in enumerate(OUTPUTS)}


class _Waiting(NamedTuple):
    """A request that waits.

    Attributes:
        signature: its name.
        columns: the texts of each input.
        rows: the number of texts.
        length: characters of its longest text.
        assigned: will hold the call that answers it, and its index among the call's requests;
            cancelled if the client has hung up.
    """

    signature: str
    columns: Columns
    rows: int
    length: int
    assigned: asyncio.Future[tuple[asyncio.Future[list[Columns]], int]]


class RequestQueue:
    """Answers requests, several in one call of the engine.

    A call takes the oldest request, and others of the same signature and of similar length: one
    long sentence does not delay many short ones.

    Args:
        functions: the function of each signature (see `Answers.signatures`).
        workers: the most calls at a time.
        max_rows: the most rows of a call.
    """

    def __init__(self, functions: Mapping[str, _Function], workers: int, max_rows: int) -> None:
        self.functions = functions
        self._idle = self._workers = workers
        self._max_rows = max_rows
        self._waiting: list[_Waiting] = []
        self._threads = ThreadPoolExecutor(workers)

    @property
    def is_busy(self) -> bool:
        """True while a call is running."""
        return self._idle < self._workers

    async def answer(self, signature: str, columns: Columns) -> Columns:
        """Returns the outputs of a request.

        If it is cancelled before its call begins, it is not computed.

        Raises:
            Exception: any error of its call.
        """
        loop = asyncio.get_running_loop()
        rows = [*zip(*columns.values(), strict=True)]
        longest = max((len(text) for row in rows for text in row), default=0)
        waiting = _Waiting(signature, columns, len(rows), longest, loop.create_future())
        self._waiting.append(waiting)
        # Requests that arrive at the same moment are seen together.
        loop.call_soon(self._start_calls)
        call, index = await waiting.assigned
        # Others may wait for the same call, so it is not cancelled with this request.
        return (await asyncio.shield(call))[index]

    def _start_calls(self) -> None:
        """Gives waiting requests to idle workers, several to a call, while there are both.

        Those whose clients have hung up are dropped.
        """
        loop = asyncio.get_running_loop()
        self._waiting = [waiting for waiting in self._waiting if not waiting.assigned.cancelled()]
        while self._idle and self._waiting:
            # While this worker still counts as idle: the shares are computed from that.
            together = self._take_similar()
            self._idle -= 1
            call = loop.run_in_executor(self._threads, self._compute, together)
            call.add_done_callback(self._finish)
            for index, waiting in enumerate(together):
                waiting.assigned.set_result((call, index))

    def _take_similar(self) -> list[_Waiting]:
        """Removes the requests of the next call from those that wait, and returns them.

        They are the oldest, and others of the same signature and similar length, in their order.
        """
        first, *others = self._waiting
        # Every idle worker gets a share.
        share = math.ceil(sum(waiting.rows for waiting in self._waiting) / self._idle)
        rows_left = min(share, self._max_rows) - first.rows
        together = [first]
        # Requests that are not taken are put back, in their order.
        self._waiting = []
        for waiting in others:
            shorter, longer = sorted((first.length, waiting.length))
            is_similar = longer <= 2 * shorter + _SIMILAR_CHARACTERS
            if waiting.rows <= rows_left and is_similar and waiting.signature == first.signature:
                together.append(waiting)
                rows_left -= waiting.rows
            else:
                self._waiting.append(waiting)
        return together

    def _compute(self, requests: Sequence[_Waiting]) -> list[Columns]:
        """Returns the outputs of each of several requests of one signature, from one call."""
        joined: Columns = {}
        for name in requests[0].columns:
            joined[name] = [text for request in requests for text in request.columns[name]]
        outputs = self.functions[requests[0].signature](**joined)
        answers, first = [], 0
        # The outputs have the rows of each request, one request after the other.
        for request in requests:
            end = first + request.rows
            answers.append({name: column[first:end] for name, column in outputs.items()})
            first = end
        return answers

    def _finish(self, call: asyncio.Future[list[Columns]]) -> None:
        """Makes the worker of a call idle, and starts the next calls.

        `answer` takes the results of the call, and its errors.
        """
        self._idle += 1
        self._start_calls()
