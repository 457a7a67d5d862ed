"""Reads models as Marian wrote them: model.npz, vocabularies and decoder.yml.

Our model is the same function, as Marian's training and scorer compute it (marian-dev,
src/models/transformer.h):

- Positions are T2T's, "concatenated"; ε is 1e-6; attention and logits have biases.
- Marian has no PAD. Ours is one more row of zeros, whose logit is too low to count.
- With normalization before the sub-layers Marian's own decoder leaves out the norm of earlier keys
  and values. Its scorer does not, and neither do we.

A vocabulary is SentencePiece's .spm, a map in .yml or .json, or lines of text. The pieces of a map
or of lines are SentencePiece's where source.spm and target.spm lie beside the file, as OPUS-MT has
them, and otherwise words between blanks. The rules are those of marian-dev,
src/data/default_vocab.cpp and sentencepiece_vocab.cpp.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import yaml
from absl import logging
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from t2t_repro.decoding.shortlist import ShortlistFile
from t2t_repro.errors import UserError
from t2t_repro.files import read_at_most
from t2t_repro.formats import imported
from t2t_repro.formats.imported import Ids, ImportedModel, ImportedSide, SettingsFile, WeightsFile
from t2t_repro.formats.marian_binary import OPTIONS, read_binary, read_shortlist
from t2t_repro.model.settings import OWN_SOURCE_EMBEDDING, LayerConfig, Normalization
from t2t_repro.model.transformer import Transformer
from t2t_repro.runs.weights import LayerWeight
from t2t_repro.text.marian import MarianFile
from t2t_repro.vocabulary import UNK_ID

# The counterparts of Marian's settings in a model of ours.
SETTINGS = imported.table_of("marian.yml")

# Keras's names, by Marian's.
ACTIVATIONS: dict[str, str] = SETTINGS["activations"]

# Our `DecoderSelfAttention`, by Marian's names.
AUTOREGRESSION: dict[str, str] = SETTINGS["autoregression"]

_NAMES = imported.WeightNames("marian")
TABLES = _NAMES.table["tables"]
_LOGITS_BIAS, _SOFTMAX = TABLES["logits_bias"], TABLES["softmax/table"]

_CONTROL_BYTES = {f"<0x{byte:02X}>" for byte in range(32)}

_EOS, _UNK = "</s>", "<unk>"

_MOST_YAML = 2**20
# Anchors expand, tags name types, and Python does not print numbers of thousands of digits.
_NOT_PLAIN = re.compile(rb"(?:^|[\s,[{:-])[&*!][\w!<]|\S{2000}")

# PyYAML takes U+0085 and such for ends of lines, and refuses control characters.
_UNREADABLE = [*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF]
_TO_STAND_IN = {character: 0xF0000 + character for character in _UNREADABLE}
_FROM_STAND_IN = {stand_in: character for character, stand_in in _TO_STAND_IN.items()}


def read_marian(path: Path, vocabularies: Sequence[Path] = ()) -> list[ImportedModel]:
    """Reads a model that Marian trained.

    Args:
        path: a directory, an .npz or .bin file, or a decoder.yml; see `imported.model_files`.
        vocabularies: files of source and target, or one for both; those of decoder.yml by default.

    Returns:
        the model, or all models of an ensemble.

    Raises:
        UserError: a file is missing or damaged, the files do not belong together, or the model is
            not one that `Transformer` can be.
    """
    files, sides, decoder = _find_files(path, vocabularies)
    ensemble = {"Translator.ensemble": "@sum_log_probabilities"} if len(files) > 1 else {}
    return [_load(file, sides, decoder, ensemble) for file in files]


def _load(path: Path, sides: Sequence[Path], decoder: SettingsFile, more: dict) -> ImportedModel:
    """Reads the model of one file of weights.

    Args:
        path: the .npz or .bin file.
        sides: the files of the source's and the target's vocabulary.
        decoder: the settings of the search.
        more: gin bindings of the ensemble that the model is of; none if it is alone.

    Raises:
        UserError: see `read_marian`.
    """
    file, arguments = _read_model(path)
    source_size = arguments["source_vocab_size"] or arguments["vocab_size"]
    # Marian has no row for PAD.
    source = _read_side("source", sides[0], source_size - 1)
    target = _read_side("target", sides[1], arguments["vocab_size"] - 1)
    transformer = _build(file, arguments, {"source": source.ids, "target": target.ids})
    # Students, which are recurrent, search greedily; 12 is Marian's default.
    beam_size = 1 if transformer.config.is_recurrent else 12
    shortlist = _find_shortlist(decoder, path, source.ids, target.ids)
    # The fewer sentences at once, the smaller the union of their shortlists.
    bindings = {"Translator.tokens_per_batch": 1024, **more} if shortlist else more
    decoding = _decoding(decoder, target.file.pieces, beam_size, bindings)
    text = imported.ImportedText(source, target)
    return ImportedModel(transformer, text, decoding, path.name, shortlist)


def _find_files(
    path: Path, vocabularies: Sequence[Path]
) -> tuple[list[Path], tuple[Path, Path], SettingsFile]:
    """Finds the files of a model: those given, else those of decoder.yml, else the only ones there.

    Returns:
        the .npz or .bin files, several of an ensemble; the vocabularies of source and target; the
        settings of decoder.yml or of a student's config.yml, which are none if there is neither.

    Raises:
        UserError: a file is needed and missing, or it is not clear which one is meant.
    """
    folder = path if path.is_dir() else path.parent
    is_model = path.suffix in (".npz", ".bin")
    decoder = _read_decoder(path, folder, is_model)
    models = [path] if is_model else _paths_beside(folder, decoder.value("models", []))
    models = models or _find_single(folder, "model.bin", "model*.bin", "model.npz", "*.npz")
    named = _paths_beside(folder, decoder.value("vocabs", []))
    # Archives of 2021 name vocabularies that they lack, and have source.spm and target.spm instead.
    if named and not any(map(Path.exists, named)):
        pair = [folder / "source.spm", folder / "target.spm"]
        named = pair if all(map(Path.exists, pair)) else []
    used = vocabularies or named or _find_vocabularies(folder, models[0])
    # One file is both the first and the last.
    return models, (used[0], used[-1]), decoder


def _find_vocabularies(folder: Path, model: Path) -> list[Path]:
    """Finds the vocabularies in a folder that belong to `model`: of both sides, or one for both.

    Raises:
        UserError: one is missing, or there are several of a kind.
    """
    source = _find_single(folder, "srcvocab*.spm", is_needed=False, model=model)
    target = _find_single(folder, "trgvocab*.spm", is_needed=bool(source), model=model)
    # Others are looked for only if these are missing: several of a kind are an error.
    return source + target or _find_single(folder, "vocab.spm", "*vocab*", model=model)


def _read_decoder(path: Path, folder: Path, is_model: bool) -> SettingsFile:
    """Reads decoder.yml, or a student's config.yml; if there is neither, there are no settings.

    Args:
        path: a directory, a file of weights, or decoder.yml itself.
        folder: the directory, or that of the file.
        is_model: whether `path` is a file of weights.

    Raises:
        UserError: the file is damaged, or there are several.
    """
    is_decoder = not is_model and not path.is_dir()
    patterns = [f"{path.name}.decoder.yml", "decoder.yml"]
    # Beside a file of weights, other names may be of other models.
    patterns += ["*decoder.yml", "config*.yml"] if path.is_dir() else []
    files = [path] if is_decoder else _find_single(folder, *patterns, is_needed=False)
    if not files and path.suffix == ".bin":
        # The config.yml of a student names its model.
        name = re.compile(rb"(?<![\w.-])" + re.escape(path.name.encode()))
        configs = [file for file in imported.files_in(folder) if file.match("config*.yml")]
        files = [file for file in configs if name.search(read_at_most(file, _MOST_YAML))][:1]
    if not files:
        return SettingsFile(path, lambda _: {})
    return SettingsFile(files[0], lambda file: _parse_yaml(read_at_most(file, _MOST_YAML)))


def _find_single(
    folder: Path, *patterns: str, is_needed: bool = True, model: Path | None = None
) -> list[Path]:
    """Finds the only file that matches a pattern, and returns it in a list.

    Only the first pattern with a match counts. Of several matches it is the one with the language
    pair of `model` in its name. The list is empty if there is no file and `is_needed` is false.

    Raises:
        UserError: there are several files, or none where one is needed.
    """
    existing = imported.files_in(folder)
    matches = ([file for file in existing if file.match(pattern)] for pattern in patterns)
    files = next(filter(None, matches), [])
    # Such as ".enpt": Firefox's model.enpt.intgemm.bin and lex.50.50.enpt.s2t.bin belong together.
    pair = model.suffixes[:1] if model else []
    files = [file for file in files if {*pair} & {*file.suffixes}] or files
    if len(files) > 1 or (is_needed and not files):
        names = ", ".join(file.name for file in files) or f"no {patterns[-1]}"
        problem = f"{folder} has {names}, expected one: give a model's file as --model"
        raise UserError(f"{problem}, vocabularies as --vocab, or move others away.")
    return files


def _paths_beside(folder: Path, names: Sequence[object]) -> list[Path]:
    """Returns where files that settings name are: at their paths, or else directly in `folder`."""
    paths = [folder / str(name) for name in names]
    # A PureWindowsPath is split at both kinds of slashes.
    return [path if path.exists() else folder / PureWindowsPath(path).name for path in paths]


def _decoding(decoder: SettingsFile, pieces: Sequence[str], beam_size: int, more: Mapping) -> str:
    """Returns gin bindings that search as decoder.yml says, or else as Marian does by default.

    Args:
        decoder: the settings of decoder.yml; a warning names those without effect.
        pieces: the target's vocabulary, by our ids.
        beam_size: the beam size where decoder.yml has none.
        more: further bindings.

    Raises:
        UserError: a setting has a value that cannot be imported.
    """
    if any(weight != 1 for weight in decoder.value("weights", [])):
        raise decoder.refused("weights", "1 for every model")
    forbidden = [] if decoder.value("allow-unk") else [UNK_ID]
    if not decoder.value("allow-special"):
        forbidden += [number for number, piece in enumerate(pieces) if piece in _CONTROL_BYTES]
    settings: dict[str, object] = {
        "Translator.search": "@MarianSearch()",
        "MarianSearch.beam_size": decoder.size("beam-size", beam_size),
        "MarianSearch.length_penalty": decoder.value("normalize", 0.0),
        "MarianSearch.word_penalty": decoder.value("word-penalty", 0.0),
        # In Marian, a factor alone limits the length of a translation.
        "Translator.max_extra_length": 0,
        "Translator.max_source_length": decoder.size("max-length", 1000),
        **more,
        "ImportedBehaviour.max_length_factor": decoder.value("max-length-factor", 3.0),
        "ImportedBehaviour.forbidden_ids": tuple(forbidden),
    }
    # After all fields have been read: it names those that were not.
    decoder.warn({*SETTINGS["decoder_without_effect"], *SETTINGS["student_config"]})
    origin = f"a model of Marian, with the search of {decoder.path.name}"
    return imported.decoding_bindings(origin, settings)


def _find_shortlist(
    decoder: SettingsFile, model: Path, source: Ids, target: Ids
) -> ShortlistFile | None:
    """Reads the shortlist that decoder.yml names or that lies beside it; its ids are ours.

    Args:
        decoder: the settings of decoder.yml.
        model: the file of weights.
        source: Marian's id of each of our ids of the source, with -1 for PAD: [ids].
        target: the same for the target.

    Returns:
        the shortlist, or None if there is none.

    Raises:
        UserError: the file is damaged, or is another model's; or there are several.
    """
    folder = decoder.path if decoder.path.is_dir() else decoder.path.parent
    files = _paths_beside(folder, decoder.value("shortlist", []))
    files = files or _find_single(folder, "lex*.bin", is_needed=False, model=model)
    if not files:
        return None
    path = files[0]
    expected = "a binary shortlist of Marian: copy it again, or take it out of folder and config"
    theirs = imported.read_file(path, lambda path: read_shortlist(path.read_bytes()), expected)
    count, largest = len(theirs.splits) - 1, theirs.ids.max(initial=0)
    if count != source.max() + 1 or largest > target.max():
        needed = f"{source.max() + 1} lists up to {target.max()}: give the model's own shortlist"
        raise UserError(f"{path} has {count} lists of ids up to {largest}, expected {needed}.")
    # [Marian's ids]: our id of each. `argsort` inverts the permutation `target`; our PAD, which
    # Marian lacks, is first, as -1, and is cut off.
    ours = np.argsort(target)[-target.max() - 1 :]
    # [our ids]: Marian's list of each; PAD has an empty one.
    lists = [theirs.of(number) if number >= 0 else theirs.ids[:0] for number in source]
    return ShortlistFile.of_lists([ours[ids] for ids in lists], ours[theirs.always])


def _read_side(side: str, path: Path, rows: int) -> ImportedSide:
    """Reads the vocabulary of a side, "source" or "target", in our order of ids.

    It has an id for each of the `rows` of the embedding, also for those without a piece.

    Raises:
        UserError: the file cannot be read, or has another number of ids.
    """
    if path.suffix == ".spm":
        spm = imported.read_file(path, Path.read_bytes)
        processor = imported.read_file(path, lambda _: SentencePieceProcessor(model_proto=spm))
        pieces = {number: processor.id_to_piece(number) for number in range(len(processor))}
        eos, unk = processor.eos_id(), processor.unk_id()
        file = MarianFile(spm, [], kind="sentencepiece")
    else:
        ids, eos, unk = imported.read_file(path, _read_ids)
        pieces = {number: piece for piece, number in ids.items()}
        file = _read_splitter(path.with_name(f"{side}.spm"))
    # A vocabulary that is sorted by frequency has EOS and UNK first.
    _check_size(path, file.kind, max(pieces) + 1, rows, is_sorted=(eos, unk) == (0, 1))
    # PAD, which Marian does not have; "<pad>" may be a word of the text.
    pieces[-1] = "<pad>" if "<pad>" not in pieces.values() else "<pad -1>"
    return ImportedSide.in_our_order(file, pieces, [-1, eos, unk], rows)


def _check_size(path: Path, kind: str, size: int, rows: int, is_sorted: bool) -> None:
    """Checks that a vocabulary of `size` ids fits an embedding of `rows`.

    SentencePiece's must have as many ids. Others may have more if they are sorted by frequency, or
    fewer if the rows were rounded up: then a warning is logged.

    Raises:
        UserError: it does not fit.
    """
    # Marian cuts off the rarest pieces of a sorted vocabulary.
    is_cut = rows < size and is_sorted
    # Some models have their number of rows rounded up, to a multiple of 8 or of 100.
    is_padded = rows > size and (rows % 8 == 0 or rows % 100 == 0)
    if size != rows:
        if kind == "sentencepiece" or not (is_cut or is_padded):
            problem = f"{path} has ids up to {size - 1}, expected {rows} ids, as the model has"
            raise UserError(f"{problem}: give the model's own vocabulary.")
        logging.warning("%s has ids up to %d, the model has %d", path, size - 1, rows)


def _read_splitter(path: Path) -> MarianFile:
    """Reads how a text is split: by the SentencePiece model at `path`, or else at blanks.

    The pieces are added later.

    Raises:
        UserError: the model is damaged; or it is missing, and codes of subword-nmt lie beside it.
    """
    if path.exists():
        return MarianFile(imported.read_sentencepiece(path), [], kind="pieces")
    if codes := [*path.parent.glob("*.bpe"), *path.parent.glob("bpe*")]:
        problem = f"{codes[0]} splits words after Moses's tokenizer"
        raise UserError(f"{problem}, expected source.spm and target.spm: it cannot be imported.")
    logging.info("the vocabulary has words: lines are split at blanks, as the training text was")
    return MarianFile(b"", [], kind="words")


def _read_ids(path: Path) -> tuple[dict[str, int], int, int]:
    """Reads a vocabulary that is a map or lines.

    Returns:
        the id of every piece, the id of EOS and the id of UNK.

    Raises:
        LookupError: it has no EOS or no UNK.
        Exception: any other error if the file is damaged or too long; `read_file` reports it.
    """
    # A vocabulary may be much longer than options.
    text = read_at_most(path, 64 * _MOST_YAML).decode()
    if path.suffix == ".json":
        ids = _ids_of_map(json.loads(text))
    elif path.suffix in (".yml", ".yaml"):
        # The base loader keeps "on" a word; the safe one reads it as true. In C it is much faster.
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        # `_ids_of_map` puts the characters back that PyYAML cannot read.
        readable = text.removeprefix("\ufeff").translate(_TO_STAND_IN)
        ids = _ids_of_map(yaml.load(readable, loader))
    else:
        lines = text.removesuffix("\n").split("\n")
        ids = {line.removesuffix("\r"): number for number, line in enumerate(lines)}
    return ids, ids[_EOS], ids[_UNK]


def _ids_of_map(content: Any) -> dict[str, int]:
    """Returns the id of every piece of a map that was read from YAML or JSON.

    EOS and UNK, which Nematus names "eos" and "UNK", are "</s>" and "<unk>".
    """
    items = dict(content).items()
    ids = {str(piece).translate(_FROM_STAND_IN): int(number) for piece, number in items}
    pieces = {number: piece for piece, number in ids.items()}
    for number, piece, nematus_piece in ((0, _EOS, "eos"), (1, _UNK, "UNK")):
        # An id without a piece, or with Nematus's, is that of Marian's "</s>" or "<unk>".
        if pieces.get(number, nematus_piece) == nematus_piece:
            ids[piece] = number
    return ids


def _read_model(path: Path) -> tuple[WeightsFile, dict[str, Any]]:
    """Reads weights and options; returns the weights, and the arguments of the `Transformer`.

    The weights have the names in weights.yml, and no rows for our PAD. A warning names the options
    without effect.

    Raises:
        UserError: the file is damaged, lacks weights, or has options that cannot be imported.
    """
    file = WeightsFile(path, _read_tensors)
    # Taken out first: all that is left are weights, which `check_size` counts.
    option_bytes = file.arrays.pop(OPTIONS).tobytes()
    options = SettingsFile(path, lambda _: _parse_yaml(option_bytes))
    arguments = _arguments(options)
    file.check_size(arguments)
    if options.value("output-omit-bias"):
        # As long as in files that have it: ours is one longer, by PAD.
        file.arrays[_LOGITS_BIAS] = np.zeros((1, arguments["vocab_size"] - 1))
    options.warn({*SETTINGS["without_effect"], *SETTINGS["student"]})
    _rename_tables(file.arrays, is_shared=arguments["source_vocab_size"] is None)
    return file, arguments


def _rename_tables(arrays: dict[str, NDArray], is_shared: bool) -> None:
    """Gives tables the names in weights.yml, in place.

    With `is_shared`, source and target have one table, "Wemb". It gets the name of the target's.
    """
    if is_shared and "Wemb" in arrays:
        arrays["decoder_Wemb"] = arrays.pop("Wemb")
    # Earlier versions stored the softmax's matrix transposed, under another name.
    if "decoder_ff_logit_out_W" in arrays:
        arrays[_SOFTMAX] = arrays.pop("decoder_ff_logit_out_W").T


def _build(file: WeightsFile, arguments: Mapping[str, Any], ids: Mapping[str, Ids]) -> Transformer:
    """Builds the model with the weights of a file.

    `ids` are, for "source" and "target", Marian's ids of ours, [ids], with -1 for PAD.

    Raises:
        UserError: the file has other weights, or lacks one.
    """
    model = Transformer(**arguments)
    model.build()
    weights = imported.named_weights(model, TABLES, partial(marian_name, config=model.config))
    file.check_names(weights)
    for name, (variable, side) in weights.items():
        rows, *columns = variable.shape
        # Tables of the file have no row for our PAD.
        value = file.value(name, (rows - 1 if side else rows, *columns))
        if side:
            pad = np.full_like(value[:1], imported.NEVER if name == _LOGITS_BIAS else 0)
            # PAD's id there is -1, which is the index of the last row.
            value = np.concatenate([value, pad])[ids[side]]
        variable.assign(value)
    return model


def marian_name(weight: LayerWeight, config: LayerConfig) -> str:
    """Returns Marian's name of a layer's weight, such as "encoder_l1_self_Wq"."""
    sublayer = weight.stack, weight.sublayer
    is_ssru = config.is_recurrent and sublayer == ("decoder", "self_attention")
    # In weights.yml, the SSRU has a row of its own, and only names of norms have the field {end}.
    norm_end = "_pre" if config.normalization == "pre" else ""
    return _NAMES.of(weight, sublayer="ssru" if is_ssru else None, end=norm_end)


def _arguments(options: SettingsFile) -> dict[str, Any]:
    """Returns the arguments of the `Transformer` for Marian's options.

    Raises:
        UserError: an option has a value that the `Transformer` cannot express.
    """
    options.require_all(SETTINGS["required"])
    d_ff = options.size("transformer-dim-ffn", 2048)
    # 0 stands for the encoder's.
    options.require("transformer-decoder-dim-ffn", 0, d_ff)
    activation = options.one_of("transformer-ffn-activation", ACTIVATIONS, "swish")
    # Whether source and target, and target and softmax, share a table.
    pairs = bool(options.value("tied-embeddings-src")), bool(options.value("tied-embeddings"))
    tied = "all" if options.value("tied-embeddings-all") else imported.TIED[pairs]
    unit: Any = options.one_of("transformer-decoder-autoreg", AUTOREGRESSION, "self-attention")
    rows = options.value("dim-vocabs", [])
    # Not isinstance: True is an int.
    if [type(size) for size in rows] != [int, int]:
        raise options.refused("dim-vocabs", "two sizes")
    source_rows, target_rows = rows
    return {
        # With a row for PAD.
        "vocab_size": target_rows + 1,
        "source_vocab_size": source_rows + 1 if tied in OWN_SOURCE_EMBEDDING else None,
        "num_layers": options.size("enc-depth", 1),
        "num_decoder_layers": options.size("dec-depth", 1),
        "config": LayerConfig(
            d_model=options.size("dim-emb", 512),
            d_ff=d_ff,
            num_heads=options.size("transformer-heads", 8),
            normalization=_normalization(options, activation),
            activation=activation,
            attention_biases=True,
            decoder_self_attention=unit,
            # Files do not name it; students are trained without.
            dropout=0.0 if unit == "ssru" else LayerConfig.dropout,
        ),
        "positional_encoding": "concatenated",
        "tied_embeddings": tied,
        "logits_bias": True,
    }


def _normalization(options: SettingsFile, activation: str) -> Normalization:
    """Returns whether sub-layers are normalized before ("pre") or after them ("post").

    Raises:
        UserError: an option of the norms has another value, or the model is of a version of Marian
            that computed its norms or activation otherwise.
    """
    kind: Normalization = "pre" if "n" in options.value("transformer-preprocess", "") else "post"
    options.require_all(SETTINGS["normalization"][kind])
    version = tuple(map(int, re.findall(r"\d+", options.value("version", "v0.0.0"))[:3]))
    if activation == "gelu" and version <= (1, 12, 0):
        raise options.refused("version", "v1.12.1 or later: before, gelu was x·sigmoid(1.702 x)")
    # Earlier versions do not normalize keys and values.
    if kind == "pre" and version < (1, 10, 28):
        raise options.refused("version", "v1.10.28 or later for transformer-preprocess n")
    return kind


def _read_tensors(path: Path) -> dict[str, NDArray]:
    """Reads all weights of a .bin or .npz file by name, and the options as `OPTIONS`.

    Raises:
        ValueError: the file is damaged, or would expand too much.
        LookupError: it has no options.
    """
    if path.suffix == ".bin":
        arrays = read_binary(path.read_bytes())
        # Activations are not rounded here, so their factors are left out.
        names = [name for name in arrays if not name.endswith("_QuantMultA")]
        return {name: arrays[name] for name in [*names, OPTIONS]}
    with np.load(path, allow_pickle=False) as arrays:
        # Of the special members, only the options are of the model.
        names = [name for name in arrays.files if not name.startswith("special:")]
        imported.check_expanded(path, sum(member.file_size for member in arrays.zip.infolist()))
        return {name: np.asarray(arrays[name]) for name in [*names, OPTIONS]}


def _parse_yaml(text: bytes) -> dict[str, Any]:
    """Parses a map of options in YAML, without the NULs at its end; {} if there are none.

    Raises:
        ValueError: it is not plain: it is very long, or has an anchor, a tag or a very long value.
    """
    # Any of these may take much time or memory to read.
    if len(text) > _MOST_YAML or _NOT_PLAIN.search(text):
        raise ValueError("it has an anchor, a tag or a very long value, which no option has")
    return dict(yaml.safe_load(text.split(b"\0")[0]) or {})
