"""Writes the README.md of a model on Hugging Face's hub, its model card.

It has what the model directory knows: sizes, corpora, scores with their signatures, and the models
whose weights it began with. Paths of the training machine are left out.
"""

from collections.abc import Iterator, Mapping
from importlib import metadata, resources
from pathlib import PurePath
from string import Template
from typing import Any

from t2t_repro.config.gin_files import read_gin
from t2t_repro.config.gin_text import bindings_in
from t2t_repro.errors import printable
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import read_ancestry, read_scores

_LANGUAGES = ("source_language", "target_language")


def model_card(
    directory: ModelDirectory,
    checkpoint: str,
    model: Transformer,
    generation: Mapping[str, Any],
    license_name: str | None,
) -> str:
    """Returns the card of a model in Marian's form.

    Args:
        directory: of the model.
        checkpoint: which of its checkpoints was exported, relative to it.
        model: the exported model.
        generation: the exported settings of `generate`.
        license_name: an identifier of SPDX or the hub; None if unknown.
    """
    corpora, layer = _corpora(directory), model.config
    scores = "\n".join(_scores(directory, checkpoint))
    alpha = generation.get("length_penalty")
    template = resources.files(__package__).joinpath("model_card.md").read_text("utf-8")
    return Template(template).substitute(
        front_matter="".join(_front_matter(corpora, license_name)),
        sizes=f"{model.num_layers} + {model.num_decoder_layers} layers, d_model {layer.d_model}, "
        f"d_ff {layer.d_ff}, {layer.num_heads} heads, {model.count_params():,} parameters",
        checkpoint=_code(checkpoint),
        version=metadata.version("t2t_repro"),
        max_length=f"{generation['max_length']:,}",
        data="\n".join(map(_corpus, corpora.items())) or "Not recorded.",
        scores=scores or "This checkpoint has not been evaluated.",
        beam_size=generation["num_beams"],
        penalty="" if alpha is None else f" and log P divided by length^{alpha}",
        ancestry="\n".join(_ancestors(directory)) or "The weights began at random.",
        license=license_name or "Unknown.",
    )


def _corpora(directory: ModelDirectory) -> dict[str, dict[str, str]]:
    """Returns the configured corpora: name -> data set and languages, if stated."""
    corpora: dict[str, dict[str, str]] = {}
    path = directory.operative_config_gin
    bindings = bindings_in(read_gin(path)) if path.exists() else {}
    for parameter, value in bindings.items():
        corpus, _, argument = parameter.rpartition(".")
        if corpus.endswith("Corpus"):
            values = corpora.setdefault(corpus, {})
            if argument in ("name", *_LANGUAGES):
                values[argument] = str(value)
    return corpora


def _corpus(corpus: tuple[str, dict[str, str]]) -> str:
    name, values = corpus
    return ", ".join([f"- {_code(name)}", *(f"{key} {_code(values[key])}" for key in values)])


def _front_matter(
    corpora: Mapping[str, Mapping[str, str]], license_name: str | None
) -> Iterator[str]:
    languages = [one[name] for one in corpora.values() for name in _LANGUAGES if name in one]
    if languages := [name for name in dict.fromkeys(languages) if name.isalpha()]:
        # Quoted: to YAML, no is false.
        yield "".join(["language:\n", *(f'- "{language}"\n' for language in languages)])
    if license_name:
        yield f"license: {license_name}\n"


def _scores(directory: ModelDirectory, checkpoint: str) -> Iterator[str]:
    scores = read_scores(directory.scores).items()
    evaluations = {split: one for split, one in scores if one["checkpoint"] == checkpoint}
    if evaluations:
        yield "Of translations by t2t_repro:\n"
        yield "| split | search | metric | value | signature |\n|---|---|---|---|---|"
    for split, evaluation in evaluations.items():
        where = f"{_code(split)} | {_code(evaluation.get('search', ''))}"
        for score in evaluation["scores"]:
            name, signature = _code(score["name"]), _code(score.get("signature", ""))
            yield f"| {where} | {name} | {score['value']:.2f} | {signature} |"


def _ancestors(directory: ModelDirectory) -> Iterator[str]:
    if ancestors := read_ancestry(directory.ancestry_json):
        yield "The weights began as those of another model, the nearest first:\n"
    for one in ancestors:
        name = _code(PurePath(one.model_dir).name)
        weights = _code(one.weights_sha256)
        yield f"- {name}, {_code(one.checkpoint)}, SHA-256 of the weights {weights}"


def _code(text: str) -> str:
    """Returns text as code in Markdown, also in a table."""
    clean = printable(" ".join(text.split())).replace("`", "'").replace("|", "\\|")
    return f"`{clean}`" if clean else ""
