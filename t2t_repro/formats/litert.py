"""Exports a model as one LiteRT file with the whole search in it, for any device.

export_dir/
  model.tflite             the model, its search and its limits: ids in, ids out
  config.json              see `decoding.litert`, which translates with these files
  subwords.model           the subwords; or one for each side, see `text.subword_model`
  shortlist.npz            see `ShortlistFile`; where the model came with one

The file has LiteRT's own operations alone, and translates sentences together; with a shortlist, one
at a time. Its layers are the model's; embeddings and the cache are rewritten.
"""

import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice
from tensorflow.lite.python.convert import ConverterError

from t2t_repro.decoding.beam_search import BeamSteps, MarianSteps
from t2t_repro.decoding.litert import CONFIG, MODEL, SHORTLIST, VERSION
from t2t_repro.decoding.search import DecodingConstraints
from t2t_repro.decoding.settings import BeamSearch, MarianSearch
from t2t_repro.decoding.step_loop import SentenceConstants, StepLoop, where_row
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError, reason_of
from t2t_repro.files import whole_directory, write_json
from t2t_repro.formats.saved_model.servable import quantized
from t2t_repro.model import cache
from t2t_repro.model.embedding import SharedEmbedding
from t2t_repro.model.masks import padding_mask
from t2t_repro.model.step_decoder import new_past, with_values
from t2t_repro.runs.weights import check_supported, logits_bias
from t2t_repro.text.subword_model import SHARED_SUBWORDS
from t2t_repro.vocabulary import PAD_ID, UNK_ID

_STEPS: dict[type, Callable[..., StepLoop]] = {BeamSearch: BeamSteps, MarianSearch: MarianSteps}


def write_litert_model(
    translator: Translator, weights: str, max_length: int, export_dir: Path, one_line: bool
) -> None:
    """Writes a directory for LiteRT, whole or not at all.

    Args:
        translator: its model, in float32, its subwords, search and limits are used.
        weights: "float32", or "int8", with which LiteRT multiplies integers.
        max_length: the most subwords of a source, and of a translation.
        export_dir: the directory to make.
        one_line: whether the file takes one line at a time. With a shortlist, it always does.

    Raises:
        UserError: LiteRT cannot express the model or its search, or a weight is not a number.
        OSError: the directory is not empty, or cannot be written.
    """
    settings = translator.settings
    supported = {
        "Translator.search": (type(settings.search).__name__, [kind.__name__ for kind in _STEPS]),
        "Translator.grammar": (getattr(settings.grammar, "__name__", None), [None]),
        "Transformer.neighbourhood": (translator.model.neighbourhood, [None]),
    }
    check_supported("LiteRT", supported)
    model = _convert(SearchInOneFile(translator, weights == "int8", max_length, one_line))
    subwords = translator.subwords.contents()
    if len({*subwords.values()}) == 1:
        # Two equal models would be in memory twice.
        subwords = {SHARED_SUBWORDS: next(iter(subwords.values()))}
    with whole_directory(export_dir) as partial:
        write_json(partial / CONFIG, _config(translator, max_length))
        for name, content in (subwords | {MODEL: model}).items():
            (partial / name).write_bytes(content)
        if shortlist := translator.used_shortlist:
            shortlist.write(partial / SHORTLIST)


def _config(translator: Translator, max_length: int) -> dict[str, Any]:
    """Returns what config.json tells the program that translates with the file."""
    longest = min(translator.max_source_length, max_length)
    return {
        "version": VERSION,
        "max_source_length": longest,
        "trained_length": min(translator.trained_length, longest),
        "beam_size": translator.beam_size,
        "codes": translator.codes,
        "forbidden_ids": translator.forbidden,
        "vocab_size": translator.model.vocab_size,
        "target_languages": translator.tags.languages,
    }


def _convert(search: "SearchInOneFile") -> bytes:
    """Converts a search to the bytes of model.tflite.

    Raises:
        UserError: LiteRT has no operation for a part of the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        function = tf.function(search.translate, search.inputs, autograph=False)
        tf.saved_model.save(search.weights, folder, function.get_concrete_function())
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        converter.optimizations = [tf.lite.Optimize.DEFAULT] if search.has_int8 else []
        try:
            return bytes(converter.convert())
        except ConverterError as error:
            problem = f"LiteRT cannot express the model ({reason_of(error)})"
            raise UserError(f"{problem}: give --format=saved_model.") from error


class SearchInOneFile:
    """The search of a batch, in operations that LiteRT has.

    Args:
        translator: the translator to express.
        int8: whether embeddings are stored as integers, with a scale for each row. They are
            then the integers of the product with the softmax's matrix, and stored once.
        max_length: the most ids of a translation.
        one_line: whether `translate` takes one line at a time. With a shortlist, it always does.

    Attributes:
        inputs: the specifications of the inputs of `translate`.
        weights: all weights.
        has_int8: as `int8` is given.
    """

    def __init__(self, translator: Translator, int8: bool, max_length: int, one_line: bool) -> None:
        # The settings, and what follows from them.
        self._translator = translator
        self._model = model = translator.model
        self.has_int8 = int8
        self._max_length = max_length
        self._has_batch = not (one_line or translator.used_shortlist)
        shapes = {"source_ids": [None if self._has_batch else 1, None], "n_best": []}
        if translator.used_shortlist:
            shapes["among"] = [None]
        self.inputs = [tf.TensorSpec(shape, tf.int32, name) for name, shape in shapes.items()]
        self._bias = _softmax_bias(translator)

        # The weights that the file stores: those of layers, and the tables.
        self.weights = tf.train.Checkpoint(all=[])
        # One object where they are tied.
        embeddings = {model.source_embedding, model.embedding, model.softmax}
        # By `id`, since `==` of weights would compare their values.
        tables = {id(embedding.table) for embedding in embeddings}
        others = (weight for weight in model.trainable_variables if id(weight) not in tables)
        self._values = [(weight, self._store(np.array(weight))) for weight in others]
        # Before the rows, which may be the softmax's.
        self._softmax = self._store(np.array(model.softmax.table))
        self._rows = {embedding: self._store_rows(embedding) for embedding in embeddings}

    def _store(self, value: NDArray | tf.Tensor) -> tf.Variable:
        """Stores a value in the file; returns the variable that holds it.

        Raises:
            UserError: a number of it is not finite.
        """
        if not np.isfinite(value).all():
            raise UserError("a weight is infinite or not a number: give another --checkpoint.")
        self.weights.all.append(tf.Variable(value, trainable=False))
        return self.weights.all[-1]

    def _store_rows(self, embedding: SharedEmbedding) -> tuple[tf.Variable, tf.Variable | None]:
        """Stores the rows of an embedding, unless they are float32 and stored as the softmax's.

        Returns:
            the rows [vocab, d_model], float32 or int8; and for int8 the scale of each row,
            [vocab, 1] int32, the bits of float32, else None.
        """
        table = np.array(embedding.table)
        if not self.has_int8:
            return (self._softmax if embedding is self._model.softmax else self._store(table)), None
        integers, scales = quantized(tf.constant(table), axis=1)
        return self._store(integers), self._store(tf.bitcast(scales, tf.int32))

    def _embedded(self, embedding: SharedEmbedding, ids: tf.Tensor) -> tf.Tensor:
        """Embeds ids as the layer does: [batch, ids] → [batch, ids, d_model]."""
        is_token = tf.expand_dims(tf.cast(ids != PAD_ID, tf.float32), -1)
        return self._looked_up(embedding, ids) * embedding.d_model**0.5 * is_token

    def _looked_up(self, embedding: SharedEmbedding, ids: tf.Tensor) -> tf.Tensor:
        """Returns rows of an embedding's matrix in float32: [..., ids] → [..., ids, d_model]."""
        rows, scales = self._rows[embedding]
        vectors = tf.cast(tf.gather(rows, ids), tf.float32)
        return vectors if scales is None else vectors * _gather_floats(scales, ids)

    def translate(
        self, source_ids: tf.Tensor, n_best: tf.Tensor, among: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Finds translations of sentences: the signature of the file.

        Args:
            source_ids: [batch, source_length] int32, EOS last, then PAD.
            n_best: scalar int32, how many translations are wanted.
            among: [ids] int32, of the lexical shortlist of a single sentence; the others are not
                scored.

        Returns:
            ids: [batch, beam, limit of the length] int32, the best first, PAD after EOS. Only the
                first n_best are final.
            scores: [batch, beam] float32. Where the file takes one line, both have no batch.
        """
        translator = self._translator
        length = tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32)
        limit = tf.minimum(translator.max_target_lengths(length), self._max_length)
        batch = source_ids.shape[0] or tf.size(limit)
        # In browsers, an output has a constant size and at most two axes.
        positions = tf.reduce_max(limit) if self._has_batch else tf.constant(self._max_length)
        # Without prefixes, and without what only other searches need.
        row = SentenceConstants(max_target_lengths=limit, prefix=(), extra=())
        # In M2M-100 and NLLB, the code of the target's language is in front of a source.
        code, source = tf.split(source_ids, [translator.codes, -1], axis=1)
        encoded = self._encode(source)
        rows, bias = self._softmax_of(among)
        # Among the ids of a shortlist, only PAD, EOS and UNK keep their numbers.
        forbidden = [token for token in translator.forbidden if among is None or token <= UNK_ID]
        constraints = DecodingConstraints(length, forbidden=tuple(forbidden))
        search = translator.settings.search
        # Without model and cache: the loop below takes the place of `StepLoop.run`.
        steps = _STEPS[type(search)](search, None, None, limit, positions, n_best, constraints)

        def goes_on(step: tf.Tensor, state: Any, past: list, ancestors: tf.Tensor) -> tf.Tensor:
            return ~tf.reduce_all(steps.is_done(state, step, row))

        def advance(step: tf.Tensor, state: Any, past: list, ancestors: tf.Tensor) -> tuple:
            ancestors = cache.descend(ancestors, state.parents, step)
            with with_values(self._values):
                pasts = self._pasts(past, state.parents, step, ancestors)
                ids = state.last_ids if among is None else tf.gather(among, state.last_ids)
                vectors = self._decode(ids, step, encoded, pasts)
            logits = tf.matmul(vectors, rows, transpose_b=True) + bias
            if translator.codes:
                # A translation begins with the code that was in front of its source.
                only_code = tf.one_hot(code, logits.shape[-1], 0.0, float("-inf"))
                logits = tf.where(step < translator.codes, only_code, logits)
            done = steps.is_done(state, step, row)
            new_state = steps.advance(state, logits, step, row)
            state = tf.nest.map_structure(functools.partial(_unless_done, done), state, new_state)
            return step + 1, state, [layer_past.kept for layer_past in pasts], ancestors

        beam = translator.beam_size
        unwritten = tf.fill([batch, beam, positions], cache.NEVER_WRITTEN)
        empty = new_past(self._model, batch, beam, beam * positions)
        begin = tf.constant(0), steps.begin(batch), empty, unwritten
        _, state, _, _ = tf.while_loop(goes_on, advance, begin)
        ids, scores, _ = steps.results(state)
        if not self._has_batch:
            ids, scores = ids[0], scores[0]
        return {"ids": ids if among is None else tf.gather(among, ids), "scores": scores}

    def _encode(self, ids: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """Encodes sources [batch, ids]; returns the memory that decoder layers read, and a mask."""
        model = self._model
        source = model.encoded_ids(ids)
        mask = padding_mask(source)
        with with_values(self._values):
            x = model.positional_encoding(self._embedded(model.source_embedding, source))
            return model.decoder.project_memory(model.encoder(x, mask)), mask

    def _decode(self, ids: tf.Tensor, step: tf.Tensor, encoded: tuple, pasts: list) -> tf.Tensor:
        """Decodes a step's ids [batch, beam] to vectors [batch, beam, d_model]; extends `pasts`."""
        model = self._model
        x = self._embedded(model.embedding, tf.where(step == 0, model.settings.start_id, ids))
        x += model.target_positional_encoding.encode(step[None])[None]
        # As `_encode` returned them.
        memory, mask = encoded
        return model.decoder(x, memory, source_mask=mask, past=pasts)

    def _softmax_of(self, among: tf.Tensor | None) -> tuple[tf.Tensor, Any]:
        """Returns the softmax's matrix [ids, d_model] and bias [ids], for `among` or all ids."""
        if among is None:
            return self._softmax, self._bias
        rows = self._looked_up(self._model.softmax, among)
        return rows, _gather_floats(self._bias.view(np.int32), among)

    def _pasts(self, kept: list, parents: tf.Tensor, step: tf.Tensor, ancestors: tf.Tensor) -> list:
        """Returns the cache of each decoder layer for a step.

        Args:
            kept: of each layer, the cache's tensors after the step before.
            parents: [batch, beam] int32, the hypotheses that this step's continue.
            step: scalar int32.
            ancestors: [batch, beam, positions], with this step's entries.

        Returns:
            of each layer, a `cache.State` if it is recurrent, else a `_NewPast`.
        """
        if self._model.config.is_recurrent:
            return [cache.State(tf.gather(state, parents, batch_dims=1)) for state in kept]
        mask = cache.line_mask(ancestors, step, None)
        layers = self._model.decoder.layers
        projections = [layer.self_attention.joint_projection() for layer in layers]
        return [_NewPast(*pair, step, mask) for pair in zip(kept, projections, strict=True)]


def _softmax_bias(translator: Translator) -> NDArray[np.float32]:
    """Returns the bias of the softmax [vocab]; -∞ for PAD where PAD takes no part in it."""
    bias = logits_bias(translator.model)
    imported = translator.settings.imported
    if translator.used_shortlist or (imported.forbid_pad and imported.renormalize):
        bias[PAD_ID] = -np.inf
    return bias


def _gather_floats(bits: Any, ids: tf.Tensor) -> tf.Tensor:
    """Gathers float32 from a table of their bits, int32: LiteRT rounds floats to 8 bits."""
    return tf.bitcast(tf.gather(bits, ids), tf.float32)


def _unless_done(done: tf.Tensor, old: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Selects `old` in rows that are `done` [batch], else `new`; both are [batch, ...]."""
    # Reshaped, since with a shortlist the search loses the static shapes that the loop needs.
    return where_row(done, old, tf.reshape(new, tf.shape(old)))


@dataclass
class _NewPast(cache.Past):
    """The earlier positions of one decoder layer, written with an operation that LiteRT has."""

    def extend(self, newest: cache.KeysValues) -> cache.KeysValues:
        """Adds this step's keys and values [batch, heads, beam, depth]; returns all."""
        start = tf.stack([0, 0, self.position * newest.keys.shape[2], 0])
        pairs = zip(self.kept, newest, strict=True)
        self.kept = cache.KeysValues(*(dynamic_update_slice(old, new, start) for old, new in pairs))
        return self.kept
