"""Word alignment by cross-attention.

The decoder reads the translation (teacher forcing). The attention of one of its layers tells which
source word each target word comes from. Words are separated by white space in the given text.
Links are written as in Pharaoh: "0-0 1-2" links word 0 of the source with word 0 of the target,
and 1 with 2.
"""

import tensorflow as tf
from numpy.typing import NDArray

from t2t_repro.decoding.batch_plan import EncodedPairs, EncodedSentences, padded
from t2t_repro.decoding.settings import AlignerSettings
from t2t_repro.errors import UserError
from t2t_repro.model.attention import recorded_by
from t2t_repro.model.transformer import Transformer
from t2t_repro.text.subword_model import SubwordModel, SubwordPair
from t2t_repro.vocabulary import NO_WORD


class Aligner:
    """Links each target word with its most attended source word.

    Attention is the mean over the heads of one decoder layer, summed over the subwords of the
    target word and over those of the source word. EOS is not a word.

    Args:
        model: the Transformer; its current weights are used at every call.
        subwords: the subword models of source and target.
        settings: the number of the decoder layer.

    Attributes:
        layer: the number of the layer whose attention is used, from 1.

    Raises:
        UserError: the decoder has fewer layers than `settings.layer`.
    """

    def __init__(
        self, model: Transformer, subwords: SubwordPair, settings: AlignerSettings
    ) -> None:
        layer = settings.layer
        count = model.num_decoder_layers
        if layer is not None and layer > count:
            raise UserError(f"Aligner.layer is {layer}, expected 1 to {count}, as the decoder has.")
        # The last but one aligns best; of few layers, the last (see `AlignerSettings`).
        self.layer: int = layer or (count if count < 4 else count - 1)
        self._model = model
        self._subwords = subwords
        ids = tf.TensorSpec([None, None], tf.int32)
        self._links = tf.function(self.links, input_signature=[ids] * 4, autograph=False)

    def align(self, pairs: EncodedPairs) -> list[str]:
        """Returns the links of each pair, such as "0-0 1-2"; "" if source or target has no ids."""

        def align_batch(batch: NDArray) -> list[str]:
            """Returns the links of each pair of a batch, from the indices of the pairs."""
            ids = pairs.sources.padded(batch), pairs.targets.padded(batch)
            source_words = _word_numbers(self._subwords.source, pairs.sources, batch)
            target_words = _word_numbers(self._subwords.target, pairs.targets, batch)
            return [text.decode() for text in self._links(*ids, source_words, target_words).numpy()]

        return pairs.compute(align_batch, "")

    def links(
        self, source: tf.Tensor, target: tf.Tensor, source_words: tf.Tensor, target_words: tf.Tensor
    ) -> tf.Tensor:
        """Aligns a batch, eagerly or in a graph.

        Args:
            source: [batch, source_length] int32 ids.
            target: [batch, target_length] int32 ids.
            source_words: [batch, source_length] int32, the index of each id's word, or `NO_WORD`.
            target_words: [batch, target_length] int32, likewise.

        Returns:
            [batch] strings, links in the order of the target's words.
        """
        # In a graph, the later layers of the decoder are not computed.
        with recorded_by(self._model.decoder.layers[self.layer - 1].memory_attention) as recorded:
            memory = self._model.encode(source, training=False)
            self._model.decode(target, memory, source, training=False)
        (attention,) = recorded  # [batch, heads, target_length, source_length]
        mean_attention = tf.reduce_mean(tf.cast(attention, tf.float32), axis=1)  # Over the heads.
        return pharaoh(linked_words(mean_attention, source_words, target_words))


def _word_numbers(subwords: SubwordModel, side: EncodedSentences, batch: NDArray) -> NDArray:
    """Returns the index of each id's word in its text, [batch, length] int32.

    It is `NO_WORD` for EOS and PAD.

    Args:
        subwords: the subword model of the side.
        side: all sources, or all targets.
        batch: the indices of the batch's pairs.
    """
    return padded([subwords.word_numbers(side.lines[n], side.ids[n]) for n in batch], NO_WORD)


def linked_words(
    attention: tf.Tensor, source_words: tf.Tensor, target_words: tf.Tensor
) -> tf.Tensor:
    """Finds the source word that each target word attends to most, summed over subwords.

    Args:
        attention: [batch, target_length, source_length] float32.
        source_words: [batch, source_length] int32, see `Aligner.links`.
        target_words: [batch, target_length] int32, likewise.

    Returns:
        [batch, target words] int32, the index of the source word. `NO_WORD` where a row has no such
        target word, or no source words.
    """
    in_source, in_target = _membership(source_words), _membership(target_words)
    # [batch, target words, source words]: attention summed over subwords.
    weights = tf.matmul(in_target, tf.matmul(attention, in_source), transpose_a=True)
    has_source_word = tf.reduce_any(in_source > 0, axis=[1, 2])
    is_word = tf.reduce_any(in_target > 0, axis=1) & has_source_word[:, None]
    return tf.where(is_word, tf.argmax(weights, axis=2, output_type=tf.int32), NO_WORD)


def _membership(words: tf.Tensor) -> tf.Tensor:
    """Returns 1.0 where a subword belongs to a word: [batch, length] → [batch, length, words]."""
    # At least 1, also without words: the argmax over words needs one.
    count = tf.maximum(tf.reduce_max(words), 0) + 1
    return tf.cast(words[:, :, None] == tf.range(count), tf.float32)


def pharaoh(links: tf.Tensor) -> tf.Tensor:
    """Writes the links of `linked_words` [batch, words] as in Pharaoh: [batch] strings.

    [[0, 2, NO_WORD]] becomes ["0-0 2-1"]: the source word first. A row without links becomes "".
    """
    is_link = links != NO_WORD
    rows, words = tf.unstack(tf.where(is_link), axis=1)
    source = tf.strings.as_string(tf.boolean_mask(links, is_link))
    text = tf.strings.join([source, "-", tf.strings.as_string(words)])
    return tf.strings.unsorted_segment_join(text, rows, tf.shape(links)[0], separator=" ")
