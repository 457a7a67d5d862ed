"""Writes the README.md of a model on Hugging Face's hub, its model card, and reads its licence.

model_card.md is its template. Paths of the training machine are left out.
"""

import re
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path, PurePath
from typing import Any

from t2t_repro.config.gin_files import read_gin
from t2t_repro.config.gin_text import bindings_in
from t2t_repro.errors import printable
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import read_ancestry, read_scores

_SCORES = """Of translations by t2t_repro:

| split | search | metric | value | signature |
|---|---|---|---|---|"""
_NOT_EVALUATED = "This checkpoint has not been evaluated."
_ANCESTORS = "The weights began as those of another model, the nearest first:\n"
_FROM_RANDOM = "The weights began at random."
_LANGUAGES = ("source_language", "target_language")


def licence_of(directory: Path) -> str:
    """Returns the licence that the card of a downloaded model states; "" if it states none.

    Of a list with a line for each item, that is the first item. Any other value is returned as it
    stands, without quotes around it: also "[mit, apache-2.0]" and "mit # see LICENSE".
    """
    card = directory / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace") if card.exists() else ""
    # A card begins with metadata, in YAML: a line of "---", and all lines before the next one.
    front = re.match(r"---\n(?:(?!---).*\n)*", text)
    # The licence is on the line of the key; or on the next one, behind "-", in a list.
    stated = re.search(r"(?m)^license:(?:\n *-)? *(\S.*)\n", front[0]) if front else None
    return stated[1].strip("\"' ") if stated else ""


def model_card(
    directory: ModelDirectory,
    checkpoint: str,
    model: Transformer,
    generation: Mapping[str, Any],
    license_name: str | None,
) -> str:
    """Returns the card of a model in Marian's form: the filled template, in Markdown.

    Args:
        directory: directory of the model, with its scores, its ancestry and its configuration.
        checkpoint: path of the exported checkpoint, relative to the directory.
        model: the exported model.
        generation: the exported settings of `generate`.
        license_name: an identifier of SPDX or the hub; None if unknown.
    """
    corpora, languages = _corpora(directory)
    alpha = generation.get("length_penalty")
    scores = [
        f"| {_code(split)} | {_code(evaluation.get('search', ''))} | {_code(score['name'])} | "
        f"{score['value']:.2f} | {_code(score.get('signature', ''))} |"
        for split, evaluation in read_scores(directory.scores).items()
        if evaluation["checkpoint"] == checkpoint
        for score in evaluation["scores"]
    ]
    ancestors = [
        f"- {_code(PurePath(ancestor.model_dir).name)}, {_code(ancestor.checkpoint)}, "
        f"SHA-256 of the weights {_code(ancestor.weights_sha256)}"
        for ancestor in read_ancestry(directory.ancestry_json)
    ]
    template = resources.files(__package__).joinpath("model_card.md").read_text("utf-8")
    return template.format(
        languages=f"language:\n{languages}" if languages else "",
        license_line=f"license: {license_name}\n" if license_name else "",
        license=license_name or "Unknown.",
        model=model,
        parameters=model.count_params(),
        checkpoint=_code(checkpoint),
        version=metadata.version("t2t_repro"),
        generation=generation,
        penalty="" if alpha is None else f" and log P divided by length^{alpha}",
        data="\n".join(corpora) or "Not recorded.",
        scores="\n".join([_SCORES, *scores]) if scores else _NOT_EVALUATED,
        ancestors="\n".join([_ANCESTORS, *ancestors]) if ancestors else _FROM_RANDOM,
    )


def _corpora(directory: ModelDirectory) -> tuple[list[str], str]:
    """Returns what a run's configuration says of its data; nothing if there is none.

    Returns:
        a line for each corpus, such as "- `TfdsCorpus`, source_language `en`"; and the languages of
        all corpora, as lines of a YAML list.
    """
    path = directory.operative_config_gin
    bindings = bindings_in(read_gin(path)) if path.exists() else {}
    corpora: dict[str, list[str]] = {}
    # The lines as keys: unlike a set, a dict keeps their order.
    languages: dict[str, None] = {}
    for parameter, value in bindings.items():
        corpus, _, argument = parameter.rpartition(".")
        if corpus.endswith("Corpus"):
            facts = corpora.setdefault(corpus, [f"- {_code(corpus)}"])
            if argument in ("name", *_LANGUAGES):
                facts.append(f"{argument} {_code(str(value))}")
            if argument in _LANGUAGES and str(value).isalpha():
                # Quoted: to YAML, no is false.
                languages[f'- "{value}"\n'] = None
    return [", ".join(facts) for facts in corpora.values()], "".join(languages)


def _code(text: str) -> str:
    """Returns text as code in Markdown, fit for a cell of a table; "" for a blank one."""
    clean = printable(" ".join(text.split())).replace("`", "'").replace("|", "\\|")
    return f"`{clean}`" if clean else ""
