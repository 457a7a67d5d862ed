"""Word alignment by cross-attention.

The decoder reads the translation (teacher forcing). The attention of one of its layers tells which
source word each target word comes from. Words are separated by white space in the given text.
Links are written as in Pharaoh: "0-0 1-2" links word 0 of the source with word 0 of the target,
and 1 with 2.
"""

from dataclasses import dataclass

import gin
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.config.values import Count, validated
from t2t_repro.data.batch_shapes import group_by_length
from t2t_repro.decoding.batch_plan import Sentences, for_each_batch, padded
from t2t_repro.errors import UserError
from t2t_repro.model.attention import recorded_by
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.vocabulary import NO_WORD


@gin.configurable("Aligner")
@validated
@dataclass(frozen=True)
class AlignerSettings:
    """The settings of an `Aligner`.

    Attributes:
        layer: of the decoder, from 1. By default the last but one of four or more layers (Garg et
            al. 2019), and the last of fewer.
    """

    layer: Count | None = None


class Aligner:
    """Links each target word with the source word that gets the most attention.

    Attention is the mean over the heads of one decoder layer, summed over the subwords of the
    target word and over those of the source word. EOS is not a word.

    Args:
        model: the Transformer; its current weights are used at every call.
        subwords: the subword models of source and target.
        settings: the layer.

    Raises:
        UserError: the decoder has fewer layers.
    """

    def __init__(
        self, model: Transformer, subwords: SubwordPair, settings: AlignerSettings
    ) -> None:
        layer = settings.layer
        count = model.num_decoder_layers
        if layer is not None and layer > count:
            raise UserError(
                f"Aligner.layer is {layer}, expected 1 to {count}, the decoder's layers."
            )
        self.layer: int = layer or (count if count < 4 else count - 1)
        self._model = model
        self._subwords = subwords
        ids = tf.TensorSpec([None, None], tf.int32)
        self._links = tf.function(self.links, input_signature=[ids] * 4, autograph=False)

    def align(
        self, sources: Sentences, targets: Sentences, tokens_per_batch: int, workers: int
    ) -> list[str]:
        """Aligns pairs of sentences.

        Args:
            sources: their sources.
            targets: their targets.
            tokens_per_batch: padded ids of a batch at most, on the longer side.
            workers: batches aligned at the same time.

        Returns:
            the links of each pair; none if source or target has no ids.
        """
        results = ["" for _ in sources.lines]
        sides = [*zip(self._subwords, (sources, targets), strict=True)]
        lengths = [
            max(map(len, pair)) if all(pair) else 0
            for pair in zip(sources.ids, targets.ids, strict=True)
        ]

        def align_batch(batch: NDArray[np.int64]) -> None:
            ids = [padded([side.ids[n] for n in batch]) for _, side in sides]
            words = [
                padded([subwords.word_numbers(side.lines[n], side.ids[n]) for n in batch], NO_WORD)
                for subwords, side in sides
            ]
            for index, links in zip(batch, self._links(*ids, *words).numpy(), strict=True):
                results[index] = links.decode()

        for_each_batch(align_batch, group_by_length(lengths, tokens_per_batch), workers)
        return results

    def links(
        self, source: tf.Tensor, target: tf.Tensor, source_words: tf.Tensor, target_words: tf.Tensor
    ) -> tf.Tensor:
        """Aligns a batch, eagerly or in a graph.

        Args:
            source: [batch, source_length], token ids.
            target: [batch, target_length], token ids.
            source_words: [batch, source_length] int32, the index of each id's word, or `NO_WORD`.
            target_words: [batch, target_length] int32, likewise.

        Returns:
            [batch] strings, links in the order of the target's words.
        """
        # A graph leaves out the later layers of the decoder, which are not needed.
        with recorded_by(self._model.decoder.layers[self.layer - 1].memory_attention) as recorded:
            memory = self._model.encode(source, training=False)
            self._model.decode(target, memory, source, training=False)
        (attention,) = recorded
        attention = tf.reduce_mean(tf.cast(attention, tf.float32), axis=1)
        return pharaoh(linked_words(attention, source_words, target_words))


def linked_words(
    attention: tf.Tensor, source_words: tf.Tensor, target_words: tf.Tensor
) -> tf.Tensor:
    """Finds the source word that each target word attends to most.

    Args:
        attention: [batch, target_length, source_length] float32.
        source_words: [batch, source_length] int32, see `Aligner.links`.
        target_words: [batch, target_length] int32.

    Returns:
        [batch, words] int32, `NO_WORD` where there is no word, or no source word.
    """
    of_source, of_target = _members(source_words), _members(target_words)
    weights = tf.matmul(of_target, tf.matmul(attention, of_source), transpose_a=True)
    is_word = (
        tf.reduce_any(of_target > 0, axis=1) & tf.reduce_any(of_source > 0, axis=[1, 2])[:, None]
    )
    return tf.where(is_word, tf.argmax(weights, axis=2, output_type=tf.int32), NO_WORD)


def _members(words: tf.Tensor) -> tf.Tensor:
    """Returns 1 where a subword belongs to a word: [batch, length] → [batch, length, words]."""
    count = tf.maximum(tf.reduce_max(words), 0) + 1
    return tf.cast(words[:, :, None] == tf.range(count), tf.float32)


def pharaoh(links: tf.Tensor) -> tf.Tensor:
    """Writes links [batch, words], from `linked_words`, as [batch] strings."""
    places = tf.where(links != NO_WORD)
    rows, words = tf.unstack(places, axis=1)
    source = tf.strings.as_string(tf.boolean_mask(links, links != NO_WORD))
    # Words are numbered from 0 without gaps, so the first link is that of word 0.
    spaces = tf.where(words > 0, " ", "")
    texts = tf.strings.join([spaces, source, "-", tf.strings.as_string(words)])
    return tf.strings.unsorted_segment_join(texts, rows, tf.shape(links)[0])
