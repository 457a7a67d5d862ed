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
# The name of a field in the head of its part.
_NAME = re.compile(r'[;\s]name="?([^";\r\n]+)', re.IGNORECASE)
# Fields of a URL or a form by name, each a list of values.
_read_fields = partial(parse_qs, keep_blank_values=True, errors="strict", max_num_fields=1000)

# The fields of a request, by name.
Fields = Mapping[str, Any]
# The translations of each sentence, the best first.
_Translated = dict[str, list[Translation]]


class Direction(NamedTuple):
    """A direction in which a model translates.

    Attributes:
        source: the code of the source language.
        target: the code of the target language.
        tag: put in front of every sentence; empty if the model has one target language.
        engine: called by several threads, so it should have one worker.
    """

    source: str
    target: str
    tag: str
    engine: Engine

    @property
    def name(self) -> str:
        """The direction as `--direction` has it, e.g. "en-de"."""
        return f"{self.source}-{self.target}"

    def translate(self, source: Sequence[str], n_best: int = 1) -> Columns:
        """Returns the column "translations": for each text a list of `n_best`, best first.

        Texts are translated sentence by sentence. The n-th translation of a text has the n-th of
        each sentence, or its last one. A word that is too long for the model stays as it is, and
        the log gives a warning if any other text is cut off.
        """
        lines = [without_key(text) for text in source]
        long = partial(find_long, self.engine, tag=self.tag)
        align = find_aligner(self.engine, self.tag)
        # A sentence is translated once, in all ranks; later ranks read `translated`.
        translated: _Translated = {}
        # For each rank, a translation of every text.
        ranks: list[list[Translation]] = []
        for rank in range(n_best):
            translate_rank = partial(self._translate_rank, translated, n_best, rank)
            ranks.append(translate_sentences(lines, self.source, translate_rank, long, align))
        # A word that is too long is not cut off: it stays.
        log_cut([translation._replace(truncated=False) for translation in ranks[0]])
        n_best_lists = []
        for text, n_best_list in zip(source, zip(*ranks, strict=True), strict=True):
            # The mark of a shortcut key is left out where it has no place.
            n_best_lists.append([with_key(text, new.text) or new.text for new in n_best_list])
        return {"translations": n_best_lists}

    def _translate_rank(
        self, translated: _Translated, n_best: int, rank: int, sentences: Sequence[str]
    ) -> Iterator[Translation]:
        """Yields the translation of each sentence that has the rank, or its last one.

        Sentences that `translated` lacks are translated, and added to it. One that the model would
        cut off stays as it is.
        """
        new = [text for text in sentences if text not in translated]
        lines = [f"{self.tag} {text}" if self.tag else text for text in new]
        # first=None: warnings must not give line numbers, as a request has no lines.
        n_best_lists = self.engine.translate(lines, n_best, first=None)
        translated.update(zip(new, n_best_lists, strict=True))
        for text in sentences:
            n_best_list = translated[text]
            translation = n_best_list[min(rank, len(n_best_list) - 1)]
            yield translation._replace(text=text) if translation.truncated else translation


def read_directions(flags: Sequence[str], engines: Sequence[Engine]) -> list[Direction]:
    """Reads the directions of all models, and finds their target languages' tags.

    Args:
        flags: the directions of each model, such as "en-de,de-en". In "en-*" the targets are all
            languages of the model's tags. A tag is `>>deu<<` or `<2de>`, with any code of the
            language.
        engines: one for each model.

    Raises:
        UserError: a direction is malformed, has no tag in its model, or is given twice.
    """
    directions = [*chain.from_iterable(map(_model_directions, flags, engines))]
    if len({direction.name for direction in directions}) < len(directions):
        raise UserError(f"--direction={' --direction='.join(flags)}: expected each direction once.")
    return directions


def read_pairs(text: str) -> list[tuple[str, str]]:
    """Reads the directions of a model; "en-de,fr-*" gives ("en", "de") and ("fr", "*").

    Raises:
        UserError: a direction is not two codes of languages.
    """
    pairs: list[tuple[str, str]] = []
    for direction in text.split(","):
        codes = _DIRECTION.fullmatch(direction)
        if not codes or not all(code == "*" or is_language(code) for code in codes.groups()):
            expected = "expected codes, e.g. en-de, en-de,en-pt-BR or en-*"
            raise UserError(f"--direction={text}: {expected}.")
        pairs.append((codes[1], codes[2]))
    return pairs


def _model_directions(text: str, engine: Engine) -> Iterator[Direction]:
    """Yields the directions of one model (see `read_directions`).

    Raises:
        UserError: `text` is malformed, or has a language for which the model has no tag.
    """
    # The tag of each language, by its code with the script (sr-Cyrl), and as clients write it (sr).
    by_full_code = {standard_code(label): tag for label, tag in engine.tags.languages.items()}
    by_client_code = {code: by_full_code[full] for full, code in usual_codes(by_full_code).items()}
    tags = by_full_code | by_client_code
    for source, target in read_pairs(text):
        # Models with default tags have one for the source language, too.
        source_tag = tags.get(find_code(source, tags)) if engine.tags.defaults else ""
        own_code = find_code(source, by_client_code)
        others = [code for code in by_client_code if code != own_code]
        targets = others if target == "*" else [target]
        # A model without tags has one target language.
        target_tags = {code: tags.get(find_code(code, tags)) if tags else "" for code in targets}
        # None stands for a language without a tag.
        if not targets or source_tag is None or None in target_tags.values():
            known = ", ".join(by_full_code.values()) or "it has none"
            raise UserError(f"--direction={text}: expected the model's languages ({known}).")
        for code, tag in target_tags.items():
            yield Direction(source, code, f"{source_tag} {tag}".strip(), engine)


def fixed_answers(directions: Sequence[Direction], limit: int, needs_key: bool) -> dict[str, Any]:
    """Returns the answers that are always the same, by path: the languages, and clients' settings.

    Args:
        directions: the directions served. Clients begin with the first.
        limit: the most characters of a request.
        needs_key: whether requests for translations need a key.
    """
    languages = []
    # Each code once, those of the first direction first.
    for code in dict.fromkeys(code for d in directions for code in (d.source, d.target)):
        name = Locale("en").languages.get(standard_code(code).replace("-", "_"), code)
        targets = [direction.target for direction in directions if direction.source == code]
        languages.append({"code": code, "name": name, "targets": targets})
    settings: dict[str, Any] = {"apiKeys": needs_key, "keyRequired": needs_key}
    settings |= {"filesTranslation": False, "suggestions": False, "charLimit": limit}
    # LibreTranslate's default: its page translates 500 ms after the last key press.
    settings |= {"frontendTimeout": 500, "supportedFilesFormat": []}
    # The first two languages are those of the first direction.
    settings["language"] = dict(zip(("source", "target"), languages, strict=False))
    return {"/languages": languages, "/frontend/settings": settings}


def read_document(body: bytes, content_type: str, url_query: str) -> dict[str, Any]:
    """Reads the fields of a request: those of its URL, and of JSON or a form.

    As in LibreTranslate, a field of the URL replaces that of a form, and one of JSON replaces that
    of the URL. All are read as UTF-8, even if the type names another charset. A field that a form
    or URL has several times is a list. `content_type` is the header, `url_query` what the URL has
    after "?"; the body may be empty.

    Raises:
        UserError: the body or the URL is malformed, or not in UTF-8.
    """
    try:
        form = _read_form(body, content_type)
        fields = (form or {}) | _read_fields(url_query)
    except ValueError as error:
        raise UserError(f"expected a form or URL in UTF-8: {reason_of(error)}") from error
    document = {name: values[0] if len(values) == 1 else values for name, values in fields.items()}
    return document | read_json(body or b"{}") if form is None else document


def _read_form(body: bytes, content_type: str) -> dict[str, list[str]] | None:
    """Returns the values of each field of a form, by name; None if the type is not a form's.

    Raises:
        ValueError: the form is malformed, or not in UTF-8.
    """
    if multipart := _MULTIPART.match(content_type):
        return _read_parts(body.decode(), multipart[1])
    if content_type.lower().startswith("application/x-www-form-urlencoded"):
        # A line break at the end is not part of the last field.
        return _read_fields(body.decode().rstrip())
    return None


def _read_parts(text: str, boundary: str) -> dict[str, list[str]]:
    """Returns the values of each field of multipart/form-data, by name.

    Parts without a name are left out. Python's email and aiohttp, which can read forms too, would
    take quadratic time, and let the sender choose a codec.
    """
    fields: dict[str, list[str]] = {}
    # A boundary is a line; the first one has no line break before it.
    for part in f"\r\n{text}".split(f"\r\n--{boundary}"):
        head, _, value = part.partition("\r\n\r\n")
        if name := _NAME.search(head):
            fields.setdefault(name[1], []).append(value)
    return fields


class Query:
    """A request for translations.

    Args:
        document: its fields, by name (see `read_document`).
        directions: all directions that are served.
        max_texts: the most texts of a request.
        max_characters: the most characters of all texts.

    Attributes:
        direction: the direction that is asked for.
        signature: in the queue, the name of the function that translates (see `Server`).
        texts: the texts to translate, as received.

    Raises:
        UserError: a field is missing, wrong or too long.
    """

    def __init__(
        self, document: Fields, directions: Sequence[Direction], max_texts: int, max_characters: int
    ) -> None:
        for name in ("q", "source", "target"):
            if not document.get(name):
                raise UserError(f"{name} is missing or empty, expected q, source and target")

        self._is_list = isinstance(document["q"], list)
        given = document["q"] if self._is_list else [document["q"]]
        self.texts = _checked_texts(given, max_texts, max_characters)
        self._alternatives = _read_alternatives(document)
        self._is_auto = str(document["source"]).lower() == "auto"
        self.direction = _find_direction(document, directions, self._is_auto)
        # As `Server` names the functions.
        self.signature = self.direction.name + (" nbest" if self._alternatives else "")

        text_format = document.get("format") or "text"
        if text_format not in ("text", "html"):
            raise UserError(f"format is {short(text_format)}, expected 'text' or 'html'")
        self._is_html = text_format == "html"
        # For each text, its pieces.
        split = split_html if self._is_html else _lines
        self._pieces = [[*split(text)] for text in self.texts]

    def sources(self) -> list[str]:
        """Returns the parts of the texts that are to be translated, each once, in their order.

        They are lines, or in HTML the texts of `split_html`.
        """
        return [*dict.fromkeys(text for pieces in self._pieces for _, text in pieces if text)]

    def answer(self, translations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Returns the fields of the answer: translations, alternatives, the detected language.

        Each field is a list if `q` was one. `translations` has the list of translations of each of
        `sources`, from `Direction.translate`.
        """
        # All lists are equally long. If nothing is to be translated, the text itself is one answer.
        count = max(map(len, translations.values()), default=1)
        # For each rank, the translation of every source.
        by_rank = [{text: nbest[n] for text, nbest in translations.items()} for n in range(count)]
        n_best_lists = []
        for pieces in self._pieces:
            n_best = [self._join(pieces, translation_of) for translation_of in by_rank]
            # Each once: those that differ in another text only are equal here.
            n_best_lists.append([*dict.fromkeys(n_best)])
        answer: dict[str, list[Any]] = {"translatedText": [n_best[0] for n_best in n_best_lists]}
        if self._alternatives:
            answer["alternatives"] = [n_best[1 : 1 + self._alternatives] for n_best in n_best_lists]
        if self._is_auto:
            # Nothing was detected: there is one source language.
            detected = {"confidence": 0, "language": self.direction.source}
            answer["detectedLanguage"] = [detected] * len(n_best_lists)
        return {name: values if self._is_list else values[0] for name, values in answer.items()}

    def _join(self, pieces: Sequence[Piece], translation_of: Mapping[str, str]) -> str:
        """Joins the pieces of a text, translated where they have a text to translate."""
        new_pieces = []
        for piece, text in pieces:
            new = translation_of[text] if text else piece
            # A piece without a text is HTML already.
            new_pieces.append(html_of(new, piece) if text and self._is_html else new)
        return "".join(new_pieces)


def _checked_texts(given: Any, max_texts: int, max_characters: int) -> list[str]:
    """Returns `given`, the value of the field q, as a list of texts.

    Raises:
        UserError: it is not a list of texts, or has too many texts or characters.
    """
    checked = texts("q", given)
    characters = sum(map(len, checked))
    if len(checked) > max_texts or characters > max_characters:
        received = f"q has {len(checked)} texts, {characters} characters"
        limits = f"{max_texts} texts of {max_characters} characters in all"
        raise UserError(f"{received}, expected at most {limits}")
    return checked


def _read_alternatives(document: Fields) -> int:
    """Returns how many alternatives are asked for, by default 0.

    Raises:
        UserError: the field is not a whole number.
    """
    alternatives = document.get("alternatives") or 0
    # A form gives the number as a text. `int` would fail for thousands of digits.
    if not re.fullmatch("[0-9]{1,9}", str(alternatives)):
        raise UserError(f"alternatives is {short(alternatives)}, expected a whole number")
    return int(alternatives)


def _find_direction(document: Fields, directions: Sequence[Direction], is_auto: bool) -> Direction:
    """Returns the direction that is asked for.

    The source "auto" means the only one that the target has; of several, one must be named.

    Raises:
        UserError: there is no such direction.
    """
    # Codes are shorter: to look for a text of megabytes takes long.
    asked_source, asked_target = (str(document[name])[:40] for name in ("source", "target"))
    target = find_code(asked_target, [direction.target for direction in directions])
    by_source = {d.source: d for d in directions if d.target == target}
    if is_auto and len(by_source) == 1:
        return next(iter(by_source.values()))
    source = find_code(asked_source, by_source)
    if source not in by_source:
        names = ", ".join(direction.name for direction in directions) or "none"
        pair = f"{short(document['source'])} and {short(document['target'])}"
        raise UserError(f"source and target are {pair}, expected one of the pairs {names}")
    return by_source[source]


def _lines(text: str) -> Iterator[Piece]:
    """Yields the lines of a text with their breaks, each as a piece that is translated whole."""
    return ((line, line) for line in text.splitlines(keepends=True))
