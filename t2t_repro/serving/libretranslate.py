"""LibreTranslate's protocol: directions, requests and answers.

https://docs.libretranslate.com/ describes it; docs/serving.md says what is different here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from t2t_repro.config.values import short
from t2t_repro.decoding.sentences import Row, translate_sentences
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.serving.html_text import Piece, html_of, split_html
from t2t_repro.serving.predict import Columns, RequestError, check_text

_LANGUAGE = r"[a-z]+(?:_\w+|-[A-Z]\w*)*"
"""A code such as en, pt-BR or zh-Hans: what follows a hyphen is capitalized."""

_DIRECTION = re.compile(rf"({_LANGUAGE})-({_LANGUAGE}|\*)", re.ASCII)


class Direction(NamedTuple):
    """A direction in which a model translates.

    Attributes:
        source: the code of a language.
        target: the code of another one.
        tag: stands in front of every sentence; empty if the model has one target language.
        translator: called by several threads, so it should have one worker.
    """

    source: str
    target: str
    tag: str
    translator: Translator

    @property
    def name(self) -> str:
        """The direction as the flag has it."""
        return f"{self.source}-{self.target}"

    def translate(self, source: Sequence[str]) -> Columns:
        """Finds as many translations of each text as the beam holds, sentence by sentence.

        The n-th has the n-th translation of each sentence, or its last one. A word that is longer
        than the model takes stays as it is.
        """
        found: dict[str, tuple[list[str], bool]] = {}
        beam_size = self.translator.settings.search.beam_size

        def translate(rank: int, sentences: Sequence[str]) -> Iterator[Row]:
            new = [text for text in sentences if text not in found]
            found.update(zip(new, self._alternatives(new, beam_size), strict=False))
            for some, is_cut in map(found.__getitem__, sentences):
                yield Row(some[min(rank, len(some) - 1)], 0.0, is_cut)

        of_rank = (partial(translate, rank) for rank in range(beam_size))
        ranks = [translate_sentences(source, self.source, one) for one in of_rank]
        rows = zip(*ranks, strict=True)
        return {"translations": [[one.translation for one in row] for row in rows]}

    def _alternatives(
        self, sentences: Sequence[str], n_best: int
    ) -> Iterator[tuple[list[str], bool]]:
        """Yields the translations of each sentence; itself, and True, if it is too long."""
        lines = [f"{self.tag} {text}" if self.tag else text for text in sentences]
        cuts = self.translator.truncated(lines)
        whole = ["" if is_cut else line for line, is_cut in zip(lines, cuts, strict=True)]
        found = self.translator.translate(whole, n_best, first=None)
        for text, is_cut, some in zip(sentences, cuts, found, strict=True):
            yield [text] if is_cut else [one.text for one in some], is_cut


def read_directions(texts: Sequence[str], translators: Sequence[Translator]) -> list[Direction]:
    """Reads the directions of models, and finds their tags of target languages.

    Args:
        texts: of each model, its directions, such as "en-de,de-en"; "en-*" has all languages of its
            tags as targets. A tag is `>>deu<<` or `<2de>`, with any code of the language.
        translators: of the models.

    Raises:
        UserError: a model has other directions, or two models have the same one.
    """
    models = zip(texts, translators, strict=False)
    directions = [one for text, translator in models for one in _of_model(text, translator)]
    if len({one.name for one in directions}) < len(directions):
        raise UserError(f"--direction={' --direction='.join(texts)}: expected each direction once.")
    return directions


def _of_model(text: str, translator: Translator) -> Iterator[Direction]:
    """Yields the directions of a model."""
    tags = {_standard_code(code): tag for code, tag in translator.tags.languages.items()}
    for found in map(_DIRECTION.fullmatch, text.split(",")):
        source, target = found.groups() if found else ("", "")
        targets = [code for code in tags if code != source] if target == "*" else [target]
        for code in targets or [""]:
            tag = tags.get(_standard_code(code)) if tags else ""
            if not code or tag is None:
                raise UserError(
                    f"--direction={text}: expected en-de or en-de,en-fr, to languages of the "
                    f"model's tags, if it has any ({', '.join(tags.values()) or 'none'})."
                )
            yield Direction(source, code, tag, translator)


def languages(directions: Sequence[Direction]) -> list[dict[str, Any]]:
    """Returns the languages of all directions, and the targets of each."""
    from babel import Locale

    names = Locale("en").languages
    codes = dict.fromkeys(code for one in directions for code in (one.source, one.target))
    return [
        {
            "code": code,
            "name": names.get(code.replace("-", "_"), code),
            "targets": [one.target for one in directions if one.source == code],
        }
        for code in codes
    ]


def frontend_settings(
    directions: Sequence[Direction], max_characters: int, needs_key: bool
) -> dict[str, Any]:
    """Returns what a page of LibreTranslate asks for."""
    sides = zip(("source", "target"), languages(directions[:1]), strict=False)
    return {
        "apiKeys": needs_key,
        "charLimit": max_characters,
        "filesTranslation": False,
        "frontendTimeout": 500,
        "keyRequired": needs_key,
        "language": {side: {"code": one["code"], "name": one["name"]} for side, one in sides},
        "suggestions": False,
        "supportedFilesFormat": [],
    }


class Query(NamedTuple):
    """A request for translations.

    Attributes:
        direction: that is asked for.
        texts: the pieces of each text.
        alternatives: the most further translations of a text.
        is_list: whether the request has a list of texts.
        is_auto: whether the server chose the source language.
        write: makes pieces of translations.
    """

    direction: Direction
    texts: list[list[Piece]]
    alternatives: int
    is_list: bool
    is_auto: bool
    write: Callable[[str], str]

    def sources(self) -> list[str]:
        """Returns what is to be translated, each text once."""
        return [*dict.fromkeys(text for pieces in self.texts for _, text in pieces if text)]

    def answer(self, found: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Returns the answer.

        Args:
            found: translations of each of `sources`, as `Direction.translate` finds them.
        """
        count = max(map(len, found.values()), default=1)
        texts = []
        for pieces in self.texts:
            columns = [
                list(map(self.write, found[text])) if text else [piece] * count
                for piece, text in pieces
            ]
            texts.append([*dict.fromkeys(map("".join, zip(*columns, strict=True)))] or [""])
        answer: dict[str, list[Any]] = {"translatedText": [best for best, *_ in texts]}
        if self.alternatives:
            answer["alternatives"] = [some[1 : 1 + self.alternatives] for some in texts]
        if self.is_auto:
            # Nothing was detected: there was no choice.
            detected = {"confidence": 0, "language": self.direction.source}
            answer["detectedLanguage"] = [detected] * len(texts)
        return {name: values if self.is_list else values[0] for name, values in answer.items()}


def read_query(
    document: Any, directions: Sequence[Direction], max_texts: int, max_characters: int
) -> Query:
    """Reads a request.

    Args:
        document: its values by name, of JSON or of a form.
        directions: that are served.
        max_texts: the most texts.
        max_characters: the most characters of all texts.

    Raises:
        RequestError: 400, something is missing, wrong or too long.
    """
    for name in ("q", "source", "target"):
        if not document.get(name):
            raise RequestError(400, f"{name} is missing or empty")
    is_list = isinstance(document["q"], list)
    texts = document["q"] if is_list else [document["q"]]
    for text in texts:
        check_text("q", text)
    characters = sum(map(len, texts))
    if len(texts) > max_texts or characters > max_characters:
        message = f"expected at most {max_texts} texts of {max_characters} characters in all"
        raise RequestError(400, f"q has {len(texts)} texts, {characters} characters, {message}")
    text_format, alternatives = document.get("format") or "text", document.get("alternatives") or 0
    if text_format not in ("text", "html"):
        raise RequestError(400, f"format is {short(text_format)}, expected 'text' or 'html'")
    if not re.fullmatch("[0-9]{1,9}", str(alternatives)):
        raise RequestError(400, f"alternatives is {short(alternatives)}, expected a number")
    split, write = (split_html, html_of) if text_format == "html" else (_lines, str)
    direction = _direction(document["source"], document["target"], directions)
    pieces, is_auto = [[*split(text)] for text in texts], document["source"] == "auto"
    return Query(direction, pieces, int(alternatives), is_list, is_auto, write)


def _lines(text: str) -> Iterator[Piece]:
    """Splits a text into lines with their breaks."""
    return ((line, line) for line in text.splitlines(keepends=True))


def _direction(source: Any, target: Any, directions: Sequence[Direction]) -> Direction:
    """Finds a direction; "auto" is the source language if there is only one.

    Raises:
        RequestError: 400, it is not served, or there are several.
    """
    found = [one for one in directions if one.target == target and source in (one.source, "auto")]
    names = ", ".join(one.name for one in found or directions) or "those of --direction"
    if not found:
        pair = f"{short(source)} to {short(target)}"
        raise RequestError(400, f"{pair} is not supported, expected {names}")
    if len(found) > 1:
        raise RequestError(400, f"source is 'auto', but no language is detected: give it ({names})")
    return found[0]


def _standard_code(label: str) -> str:
    """Returns the code that clients use for a language: de for deu, zh-CN for zh_cn."""
    from babel.core import get_global

    language, *others = label.replace("_", "-").split("-")
    standard = get_global("language_aliases").get(language, language)
    cased = (one.title() if len(one) == 4 else one.upper() for one in others)
    return "-".join([standard, *cased])
