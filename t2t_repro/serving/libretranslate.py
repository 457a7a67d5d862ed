"""LibreTranslate's protocol: directions, requests and answers.

https://docs.libretranslate.com/ describes it; docs/serving.md says what is different here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from babel import Locale

from t2t_repro.config.values import short, texts
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.search import Translation, log_cut
from t2t_repro.decoding.sentences import find_aligner, find_long, translate_sentences
from t2t_repro.documents.edits import with_key, without_key
from t2t_repro.documents.html import Piece, html_of, split_html
from t2t_repro.errors import UserError, reason_of
from t2t_repro.serving.languages import CODE, find_code, is_language, standard_code, usual_codes
from t2t_repro.serving.predict import Columns, read_json

_DIRECTION = re.compile(rf"({CODE})-({CODE}|\*)", re.ASCII)
_MULTIPART = re.compile(r'multipart/form-data\s*;.*\bboundary="?([^";\s]+)', re.IGNORECASE)
_NAME = re.compile(r'[;\s]name="?([^";\r\n]+)', re.IGNORECASE)
_read_fields = partial(parse_qs, keep_blank_values=True, errors="strict", max_num_fields=1000)


class Direction(NamedTuple):
    """A direction in which a model translates.

    Attributes:
        source: the code of a language.
        target: the code of another one.
        tag: stands in front of every sentence; empty if the model has one target language.
        engine: called by several threads, so it should have one worker.
    """

    source: str
    target: str
    tag: str
    engine: Engine

    @property
    def name(self) -> str:
        """The direction as the flag has it."""
        return f"{self.source}-{self.target}"

    def translate(self, source: Sequence[str]) -> Columns:
        """Finds all translations of each text that the beam holds.

        Texts are translated sentence by sentence. The n-th has the n-th translation of each
        sentence, or its last one. A word that is longer than the model takes stays as it is.
        """
        translated: dict[str, list[Translation]] = {}
        beam_size = self.engine.beam_size

        def translate(rank: int, sentences: Sequence[str]) -> Iterator[Translation]:
            new = [text for text in sentences if text not in translated]
            lines = [f"{self.tag} {text}" if self.tag else text for text in new]
            translations = self.engine.translate(lines, beam_size, first=None)
            translated.update(zip(new, translations, strict=True))
            for text in sentences:
                translation = translated[text][: rank + 1][-1]
                yield translation._replace(text=text) if translation.truncated else translation

        of_rank = (partial(translate, rank) for rank in range(beam_size))
        long = partial(find_long, self.engine, tag=self.tag)
        align = find_aligner(self.engine, self.tag)
        lines = [*map(without_key, source)]
        ranks = [translate_sentences(lines, self.source, one, long, align) for one in of_rank]
        # Words that are too long stay.
        log_cut([line._replace(truncated=False) for line in ranks[0]])
        rows = zip(source, zip(*ranks, strict=True), strict=True)
        return {"translations": [[with_key(q, x.text) or x.text for x in row] for q, row in rows]}


def read_directions(given: Sequence[str], engines: Sequence[Engine]) -> list[Direction]:
    """Reads all models' directions, and finds the target languages' tags.

    Args:
        given: the directions of each model, such as "en-de,de-en". In "en-*" the targets are all
            languages of the model's tags. A tag is `>>deu<<` or `<2de>`, with any code of the
            language.
        engines: one for each model.

    Raises:
        UserError: a direction is malformed, has no tag in its model, or is given twice.
    """
    directions = [*chain.from_iterable(map(_model_directions, given, engines))]
    if len({direction.name for direction in directions}) < len(directions):
        raise UserError(f"--direction={' --direction='.join(given)}: expected each direction once.")
    return directions


def read_pairs(text: str) -> list[tuple[str, str]]:
    """Reads the directions of a model: source and target of each.

    Raises:
        UserError: a direction is not two codes of languages.
    """
    pairs = [match.groups() for match in map(_DIRECTION.fullmatch, text.split(",")) if match]
    is_known = all(code == "*" or is_language(code) for code in chain.from_iterable(pairs))
    if not is_known or len(pairs) <= text.count(","):
        examples = "en-de, or en-de,en-pt-BR, or en-*"
        raise UserError(f"--direction={text}: expected codes of languages, such as {examples}.")
    return [(source, target) for source, target in pairs]


def _model_directions(text: str, engine: Engine) -> Iterator[Direction]:
    """Yields the directions of one model (see `read_directions`)."""
    full = {standard_code(label): tag for label, tag in engine.tags.languages.items()}
    usual = {code: full[whole] for whole, code in usual_codes(full).items()}
    tags = full | usual
    for source, target in read_pairs(text):
        source_tag = tags.get(find_code(source, tags)) if engine.tags.defaults else ""
        others = [code for code in usual if code != standard_code(source)]
        for code in (others or [""]) if target == "*" else [target]:
            tag = tags.get(find_code(code, tags)) if tags else ""
            if not code or tag is None or source_tag is None:
                known = ", ".join(full.values()) or "it has none"
                raise UserError(f"--direction={text}: expected the model's languages ({known}).")
            yield Direction(source, code, f"{source_tag} {tag}".strip(), engine)


def fixed_answers(directions: Sequence[Direction], limit: int, needs_key: bool) -> dict[str, Any]:
    """Returns the answers that are always the same, by path.

    They are the languages, and settings of clients.

    Args:
        directions: the served ones. Clients select the first.
        limit: the most characters of a request.
        needs_key: whether requests for translations need a key.
    """
    names = Locale("en").languages
    languages = [
        {
            "code": code,
            "name": names.get(standard_code(code).replace("-", "_"), code),
            "targets": [one.target for one in directions if one.source == code],
        }
        for code in dict.fromkeys(code for one in directions for code in (one.source, one.target))
    ]
    settings: dict[str, Any] = dict.fromkeys(("apiKeys", "keyRequired"), needs_key)
    settings |= dict.fromkeys(("filesTranslation", "suggestions"), False)
    settings |= {"charLimit": limit, "frontendTimeout": 500, "supportedFilesFormat": []}
    # The codes begin with those of the first direction.
    settings["language"] = dict(zip(("source", "target"), languages, strict=False))
    return {"/languages": languages, "/frontend/settings": settings}


def read_document(body: bytes, content_type: str, url_query: str) -> dict[str, Any]:
    """Reads the fields of a request.

    They are those of its URL, and of JSON or a form. As in LibreTranslate, a field of the URL
    counts more than that of a form, and less than JSON's; all are in UTF-8, whatever the type says.
    One that a form or URL has several times is a list.

    Raises:
        UserError: the body is malformed, or not in UTF-8.
    """
    multipart = _MULTIPART.match(content_type)
    is_form = multipart or content_type.lower().startswith("application/x-www-form-urlencoded")
    try:
        text = body.decode().rstrip() if is_form else ""
        form = _read_parts(text, multipart[1]) if multipart else _read_fields(text)
        fields = form | _read_fields(url_query)
    except ValueError as error:
        raise UserError(f"no form or URL in UTF-8: {reason_of(error)}") from error
    document = {name: given[0] if len(given) == 1 else given for name, given in fields.items()}
    return document if is_form else document | read_json(body or b"{}")


def _read_parts(text: str, boundary: str) -> dict[str, list[str]]:
    """Reads multipart/form-data: the values of each field, by name.

    Python's email and aiohttp take quadratic time, and let the sender choose a codec.
    """
    fields: dict[str, list[str]] = {}
    for part in f"\r\n{text}".split(f"\r\n--{boundary}"):
        head, _, value = part.partition("\r\n\r\n")
        if name := _NAME.search(head):
            fields.setdefault(name[1], []).append(value)
    return fields


class Query:
    """A request for translations.

    Args:
        document: its values by name, of JSON or of a form.
        directions: all directions that are served.
        max_texts: the most texts of a request.
        max_characters: the most characters of all texts.

    Attributes:
        direction: the direction that is asked for.
        texts: the texts to translate.

    Raises:
        UserError: a field is missing, wrong or too long.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        directions: Sequence[Direction],
        max_texts: int,
        max_characters: int,
    ) -> None:
        for name in ("q", "source", "target"):
            if not document.get(name):
                raise UserError(f"{name} is missing or empty")

        self._is_list = isinstance(document["q"], list)
        self.texts = texts("q", document["q"] if self._is_list else [document["q"]])
        characters = sum(map(len, self.texts))
        if len(self.texts) > max_texts or characters > max_characters:
            received = f"q has {len(self.texts)} texts, {characters} characters"
            limits = f"{max_texts} texts of {max_characters} characters in all"
            raise UserError(f"{received}, expected at most {limits}")

        text_format = document.get("format") or "text"
        if text_format not in ("text", "html"):
            raise UserError(f"format is {short(text_format)}, expected 'text' or 'html'")
        self._is_html = text_format == "html"
        split = split_html if self._is_html else _lines
        self._pieces = [[*split(text)] for text in self.texts]

        alternatives = document.get("alternatives") or 0
        if not re.fullmatch("[0-9]{1,9}", str(alternatives)):
            raise UserError(f"alternatives is {short(alternatives)}, expected a number")
        self._alternatives = int(alternatives)

        # No code is longer: to look for a text of megabytes takes long.
        source, target = (str(document[name])[:40] for name in ("source", "target"))
        target = find_code(target, [one.target for one in directions])
        # The directions into the target, by source.
        served = {one.source: one for one in directions if one.target == target}
        self._is_auto = source.lower() == "auto"
        if self._is_auto and len(served) == 1:
            (source,) = served
        if (source := find_code(source, served)) not in served:
            names = ", ".join(direction.name for direction in directions) or "none"
            pair = f"{short(document['source'])} and {short(document['target'])}"
            raise UserError(f"source and target are {pair}, expected one of the pairs {names}")
        self.direction = served[source]

    def sources(self) -> list[str]:
        """Returns the texts to translate, each once."""
        return [*dict.fromkeys(text for pieces in self._pieces for _, text in pieces if text)]

    def answer(self, translations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Returns the answer.

        Args:
            translations: of each of `sources`, as `Direction.translate` finds them.
        """
        count = max(map(len, translations.values()), default=1)
        write = html_of if self._is_html else lambda text, piece: text
        ranks = []
        for pieces in self._pieces:
            columns = [
                [write(one, piece) for one in translations[text]] if text else [piece] * count
                for piece, text in pieces
            ]
            ranks.append([*dict.fromkeys(map("".join, zip(*columns, strict=True)))] or [""])
        answer: dict[str, list[Any]] = {"translatedText": [best for best, *_ in ranks]}
        if self._alternatives:
            answer["alternatives"] = [ranked[1 : 1 + self._alternatives] for ranked in ranks]
        if self._is_auto:
            # Nothing was detected: there was no choice.
            detected = {"confidence": 0, "language": self.direction.source}
            answer["detectedLanguage"] = [detected] * len(ranks)
        return {name: values if self._is_list else values[0] for name, values in answer.items()}


def _lines(text: str) -> Iterator[Piece]:
    """Splits a text into lines with their breaks."""
    return ((line, line) for line in text.splitlines(keepends=True))
