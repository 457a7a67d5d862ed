"""The card of a model that is given away: README.md, as Hugging Face's hub shows it.

It says what the model directory knows: sizes, corpora, scores with their signatures, and whose
weights the model began with. Folders of the machine that trained it are no one else's business: of
what may be a path the last name is left.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import t2t_repro
from t2t_repro.analysis.run_record import read_evaluations
from t2t_repro.config.gin_files import read_gin
from t2t_repro.config.gin_text import Reference, bindings_in
from t2t_repro.errors import UserError, printable
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.model_directory import ModelDirectory
from t2t_repro.runs.records import read_ancestry

_LANGUAGES = ("source_language", "target_language")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_NAME = re.compile(r"\w+(/[\w-]+)?(:[\w.*]+)?")


def model_card(
    directory: ModelDirectory,
    checkpoint: str,
    model: Transformer,
    generation: Mapping[str, Any],
    license_name: str | None,
) -> str:
    """Writes the card of a model in Marian's form.

    Args:
        directory: the model's.
        checkpoint: which of its checkpoints, relative to it.
        model: its sizes are told.
        generation: the exported settings of `generate`.
        license_name: that its owner gives it, an identifier of SPDX's or the hub's.

    Raises:
        UserError: an evaluation in the directory is damaged.
    """
    corpora = _corpora(directory)
    return "\n".join(
        [
            *_front_matter(corpora, license_name),
            *_introduction(model, checkpoint),
            *_use(generation),
            *_data(corpora),
            *_scores(directory, checkpoint),
            *_decoding(generation),
            *_ancestry(directory),
            *_license(license_name),
        ]
    )


def _front_matter(corpora: Sequence["_Corpus"], license_name: str | None) -> list[str]:
    """What the hub reads."""
    lines = ["---", "library_name: transformers", "pipeline_tag: translation"]
    found = [value for _, values in corpora for name in _LANGUAGES if (value := values.get(name))]
    known = [one for one in found if isinstance(one, str) and _LANGUAGE.fullmatch(one)]
    if languages := dict.fromkeys(known):
        # Quoted: to YAML, no is false.
        lines += ["language:", *(f'- "{language}"' for language in languages)]
    if license_name:
        lines.append(f"license: {license_name}")
    return [*lines, "tags:", "- translation", "- marian", "---", ""]


def _introduction(model: Transformer, checkpoint: str) -> list[str]:
    layer = model.config
    return [
        "# A Transformer for translation",
        "",
        f"{model.num_layers} + {model.num_layers} layers, d_model {layer.d_model}, d_ff "
        f"{layer.d_ff}, {layer.num_heads} heads, {model.count_params():,} parameters; checkpoint "
        f"{_code(checkpoint)}, exported by t2t_repro {t2t_repro.__version__}.",
        "",
    ]


def _use(generation: Mapping[str, Any]) -> list[str]:
    return [
        "```python",
        "from transformers import MarianMTModel, MarianTokenizer",
        "",
        'folder = "."  # this directory, or its name on the hub',
        "tokenizer = MarianTokenizer.from_pretrained(folder)",
        "model = MarianMTModel.from_pretrained(folder)",
        'batch = tokenizer(["A sentence."], return_tensors="pt", padding=True)',
        "longest = batch.input_ids.shape[1] + 50",
        "found = model.generate(**batch, max_new_tokens=longest)",
        "print(tokenizer.batch_decode(found, skip_special_tokens=True))",
        "```",
        "",
        "Text is given as the training data were: no punctuation is normalised. What begins with "
        "`>>` and goes on with `<<` is read as the code of a language, which this model may not "
        f"have. A sentence and its translation have {generation['max_length']:,} subwords at most.",
        "",
    ]


_Corpus = tuple[str, dict[str, Any]]
"""A corpus's name and what it was bound to."""


def _corpora(directory: ModelDirectory) -> list[_Corpus]:
    """The corpora of the training run, those within others too; none where nothing says it."""
    try:
        bindings = bindings_in(read_gin(directory.operative_config_gin))
    except UserError:
        return []
    values: dict[str, dict[str, Any]] = {}
    for parameter, value in bindings.items():
        name, _, argument = parameter.partition(".")
        values.setdefault(name, {})[argument] = value
    found: dict[str, dict[str, Any]] = {}
    wanted = list(_references(values.get("prepare", {}).get("corpus")))
    while wanted:
        if (name := wanted.pop(0)) not in found:
            found[name] = values.get(name.split("/")[-1], {}) | values.get(name, {})
            wanted += _references(found[name])
    # A macro has a value alone.
    return [(name, of_it) for name, of_it in found.items() if "" not in of_it]


def _references(value: Any) -> Iterator[str]:
    """What a value refers to, with scopes."""
    if isinstance(value, Reference):
        yield "/".join([*value.scope, value.name]) if not value.is_macro else value.name
    elif isinstance(value, Mapping):
        yield from (name for one in value.values() for name in _references(one))
    elif isinstance(value, list | tuple):
        yield from (name for one in value for name in _references(one))


def _data(corpora: Sequence[_Corpus]) -> list[str]:
    lines = [
        f"- {_code(name)}"
        + "".join(
            f", {key} {_code(repr(value if _is_name(key, value) else _without_folders(value)))}"
            for key, value in of_it.items()
        )
        for name, of_it in corpora
    ]
    return ["## Data", "", *(lines or ["Not recorded: the model was not trained here."]), ""]


def _is_name(key: str, value: Any) -> bool:
    """Whether it is the name of a data set, as TFDS has it: such names have a slash in them."""
    return key == "name" and isinstance(value, str) and _NAME.fullmatch(value) is not None


def _without_folders(value: Any) -> Any:
    if isinstance(value, Reference):
        return value
    if isinstance(value, str) and not value.startswith(("http://", "https://")):
        # Where it has no slash, its name is all of it.
        return PurePath(value).name
    if isinstance(value, Mapping):
        return {key: _without_folders(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_without_folders, value))
    return value


def _scores(directory: ModelDirectory, checkpoint: str) -> list[str]:
    evaluations = read_evaluations(directory.path)
    rows = [
        f"| {_cell(split)} | {_cell(score.name)} | {score.value:.2f} | {_cell(score.signature)} |"
        for split, evaluation in evaluations.items()
        if evaluation.checkpoint == checkpoint
        for score in evaluation.scores
    ]
    if not rows:
        return ["## Scores", "", "This checkpoint has not been evaluated.", ""]
    searches = {
        evaluation.search
        for evaluation in evaluations.values()
        if evaluation.checkpoint == checkpoint
    }
    how = " and ".join(map(_code, sorted(filter(None, searches)))) or "a search not recorded"
    return [
        "## Scores",
        "",
        f"Of translations by t2t_repro itself, with {how}:",
        "",
        "| split | metric | value | signature |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _decoding(generation: Mapping[str, Any]) -> list[str]:
    beam, alpha = generation["num_beams"], generation.get("length_penalty")
    penalty = "" if alpha is None else f" and log P divided by length^{alpha}"
    return [
        "## Search",
        "",
        f"`generate` searches with a beam of {beam}{penalty}, unless it is told otherwise. Greedy "
        "translations (`num_beams=1`) are t2t_repro's own. Wider beams of the two search by "
        "different rules: most translations are the same, not all.",
        "",
    ]


def _ancestry(directory: ModelDirectory) -> list[str]:
    if not (ancestors := read_ancestry(directory.ancestry_json)):
        return []
    return [
        "## Ancestry",
        "",
        "The weights began as those of another model, the nearest first:",
        "",
        *(
            f"- {_code(_without_folders(one.model_dir))}, {_code(one.checkpoint)}, SHA-256 of the "
            f"weights {_code(one.weights_sha256)}"
            for one in ancestors
        ),
        "",
    ]


def _license(license_name: str | None) -> list[str]:
    text = "Unknown: nobody has said under which licence this model, or its data, may be used."
    return ["## Licence", "", license_name or text, ""]


def _code(text: str) -> str:
    """Text of a stranger's as code, which Markdown leaves alone."""
    return f"`{printable(' '.join(text.split())).replace('`', chr(39))}`"


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|") if text else ""
