"""Grammars restrict a search; the grammar of linearised trees, with as many leaves as words.

A Transformer cannot count: without the grammar, half of the outputs of a small parser are not trees
of their sentences. A tag dictionary (Ratnaparkhi 1996) keeps leaves and words side by side: a
decoder that has skipped a word finds no tag for the next word.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_repro.decoding.search import Cache, Grammar, SoftGrammar, StepModel
from t2t_repro.errors import UserError
from t2t_repro.text.sentencepiece import SentencePieceModel
from t2t_repro.text.subword_model import SubwordPair
from t2t_repro.vocabulary import EOS_ID, PAD_ID, SPACE_MARK

# Begins the symbol that closes a constituent, as `parsing.trees` writes it.
_CLOSE = "/"


class GrammaticalModel(NamedTuple):
    """A model whose hypotheses follow a grammar.

    To a search it is a `StepModel` like any other. Its scores are log-probabilities, -inf for ids
    that may not come next. The other ids keep the probability that the model gives them, so a score
    is still log P. Its cache is the model's cache and the grammar's state.

    Attributes:
        model: scores the next id.
        grammar: restricts the next ids, or changes their scores.
        normalized: as in `DecodingConstraints`.
        free: as there; the grammar sees PAD in their place.
    """

    model: StepModel
    grammar: Grammar | SoftGrammar
    normalized: bool = False
    free: int = 0

    def make_room(self, cache: Cache, positions: int) -> Cache:
        """Returns the cache with the model's part enlarged by `positions` steps."""
        model_cache, state = cache
        return self.model.make_room(model_cache, positions), state

    def step(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, cache: Cache
    ) -> tuple[tf.Tensor, Cache]:
        """Scores the next id of every hypothesis (see `StepModel`)."""
        model_cache, state = cache
        outputs, model_cache = self.model.step(ids, parents, position, model_cache)
        scores = tf.cast(outputs, tf.float32)
        log_p = scores if self.normalized else tf.nn.log_softmax(scores)
        # Each hypothesis continues from its parent's state.
        before = tf.nest.map_structure(lambda part: tf.gather(part, parents, batch_dims=1), state)
        # At step 0 the last id is PAD, and up to `free` it is one that the grammar does not see.
        state = self.grammar.after(before, tf.where(position > self.free, ids, PAD_ID))
        if isinstance(self.grammar, SoftGrammar):
            return self.grammar.rescored(log_p, state), (model_cache, state)
        return tf.where(self.grammar.allowed(state), log_p, float("-inf")), (model_cache, state)


class TreeState(NamedTuple):
    """The trees written so far, [batch, beam] each, some with one dimension more."""

    ids_left: tf.Tensor  # int32: the most ids that may still come, EOS included
    words: tf.Tensor  # int32: the words that have no leaf yet
    # [batch, beam, 1 + source_length] int32: at index n the class of the n-th last word
    classes: tf.Tensor
    depth: tf.Tensor  # int32: the number of open brackets
    brackets: tf.Tensor  # [batch, beam, most_brackets] int32: the id that closes each, then PAD
    is_filled: tf.Tensor  # bool: whether the innermost open bracket has a leaf or a bracket in it


class TreeGrammar:
    """Allows the ids of a tree with a leaf for each word.

    A bracket opens with its label and closes with a slash and its label; see `parsing.trees`.
    The labels are the symbols of the vocabulary that have such a closing symbol. All other symbols
    are tags, which are leaves, unless they are a slash and a label. In gin:
    `Translator.grammar = @TreeGrammar`.

    Only the innermost open bracket can be closed, and only if there is something in it. The number
    of ids left always suffices for the words without leaves, the open brackets and EOS.

    Args:
        subwords: subword models of a treebank. A word begins with SentencePiece's mark of a space;
            a symbol that is not one subword cannot be written.
        tags: words that may have only certain tags, by these tags: {"IN RB": "about"}. All are
            separated by spaces (see `settings.tree_grammar`). Unknown tags are left out; if all are
            unknown, any tag is allowed.
        other_tags: the tags that all other words may have; "" for any tag.

    Raises:
        UserError: the subwords are not of a treebank.
    """

    def __init__(self, subwords: SubwordPair, tags: Mapping[str, str], other_tags: str) -> None:
        source, target = subwords
        symbols = list(map(_symbol, target.pieces()))
        ids = {symbol: number for number, symbol in enumerate(symbols) if symbol}
        # [vocab]: the id that closes the bracket that an id opens; PAD for an id that opens none.
        # A piece that is no symbol opens none: its "" would be closed by the slash alone, a tag.
        closer_of = [ids.get(_CLOSE + symbol, PAD_ID) if symbol else PAD_ID for symbol in symbols]
        if {*closer_of} == {PAD_ID} or not isinstance(source, SentencePieceModel):
            problem = "TreeGrammar needs symbols of SentencePiece (NP, /NP), as treebanks have"
            raise UserError(f"{problem}: for another model bind Translator.grammar = None.")
        # All [vocab]: what an id opens or closes, or whether it is a tag.
        self._closer_of = np.array(closer_of, np.int32)
        self._is_opener = self._closer_of != PAD_ID
        self._is_closer = np.isin(np.arange(len(symbols)), self._closer_of[self._is_opener])
        self._is_leaf = np.array([*map(_may_be_tag, symbols)]) & ~self._is_opener
        self._begins_word = np.array(source.word_marks.marked, np.int32)
        # [classes, vocab] bool: the leaves that the words of a class may have. Class 0 is for words
        # that `tags` does not list.
        self._leaves_of = np.stack([self._leaves(names, ids) for names in (other_tags, *tags)])
        self._class_of = _class_of(source.pieces(), list(tags.values()))

    def _leaves(self, tags: str, ids: Mapping[str, int]) -> np.ndarray:
        """Returns which ids are leaves with one of some tags, [vocab] bool; all leaves if none is.

        Args:
            tags: tags such as "NN JJ". Unknown ones are left out.
            ids: the id of each symbol.
        """
        tag_ids = [ids[tag] for tag in tags.split() if tag in ids]
        leaves = self._is_leaf & np.isin(np.arange(len(self._is_leaf)), tag_ids)
        return leaves if leaves.any() else self._is_leaf

    def begin(self, source: tf.Tensor, max_target_lengths: tf.Tensor, beam_size: int) -> TreeState:
        """Returns the state of hypotheses without ids (see `Grammar`)."""
        begins = tf.gather(self._begins_word, source)
        # The same for all hypotheses of a row.
        ids_left = tf.repeat(max_target_lengths[:, None], beam_size, axis=1)
        words = tf.repeat(tf.reduce_sum(begins, axis=1)[:, None], beam_size, axis=1)
        classes = tf.repeat(self._classes(source, begins)[:, None], beam_size, axis=1)
        # Each open bracket takes two ids: its label and its closing symbol.
        most_brackets = tf.reduce_max(max_target_lengths) // 2 + 1
        brackets = tf.zeros([tf.shape(source)[0], beam_size, most_brackets], tf.int32)
        depth, is_filled = tf.zeros_like(words), tf.zeros_like(words, tf.bool)
        return TreeState(ids_left, words, classes, depth, brackets, is_filled)

    def _classes(self, source: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
        """Returns the class of each word (see `_leaves_of`), by its number from the end.

        The last word has the number 1. The class is 0 for words of several pieces, and for numbers
        without a word, such as 0.

        Args:
            source: [batch, source_length] int32.
            begins: the same shape; 1 where a word begins, else 0.

        Returns:
            [batch, 1 + source_length] int32, by the number of the word.
        """
        # [batch, source_length]: the number of each piece's word.
        word_of = 1 + tf.reduce_sum(begins, axis=1, keepdims=True) - tf.cumsum(begins, axis=1)
        numbers = tf.range(1 + tf.shape(source)[1])
        # [batch, numbers, source_length]; PAD and EOS belong to no word.
        is_piece_of = (word_of[:, None] == numbers[:, None]) & (source > EOS_ID)[:, None]
        pieces = tf.math.count_nonzero(is_piece_of, axis=2, dtype=tf.int32)
        piece_classes = tf.where(is_piece_of, tf.gather(self._class_of, source)[:, None], 0)
        return tf.where(pieces == 1, tf.reduce_sum(piece_classes, axis=2), 0)

    def after(self, state: TreeState, ids: tf.Tensor) -> TreeState:
        """Returns the state after one more id, [batch, beam] (see `Grammar`)."""
        # What each id does, [batch, beam]. `closer`: the id that closes the bracket that it opens.
        closer = tf.gather(self._closer_of, ids)
        opens, closes = closer != PAD_ID, tf.gather(self._is_closer, ids)
        is_leaf = tf.gather(self._is_leaf, ids)
        # The index of the bracket that opens or closes.
        index = state.depth - tf.cast(closes, tf.int32)
        is_at_index = tf.range(tf.shape(state.brackets)[-1]) == index[..., None]
        is_changed = is_at_index & (opens | closes)[..., None]
        return TreeState(
            ids_left=state.ids_left - tf.cast(ids != PAD_ID, tf.int32),
            words=state.words - tf.cast(is_leaf, tf.int32),
            classes=state.classes,
            depth=index + tf.cast(opens, tf.int32),
            # The closer of a closing symbol is PAD, which removes the bracket.
            brackets=tf.where(is_changed, closer[..., None], state.brackets),
            is_filled=(state.is_filled | is_leaf | closes) & ~opens,
        )

    def allowed(self, state: TreeState) -> tf.Tensor:
        """Returns which ids may come next, [batch, beam, vocab] bool (see `Grammar`)."""
        is_innermost = tf.range(tf.shape(state.brackets)[-1]) == state.depth[..., None] - 1
        innermost_closer = tf.reduce_sum(tf.where(is_innermost, state.brackets, 0), axis=-1)
        closer = tf.where(state.is_filled, innermost_closer, PAD_ID)
        has_words = state.words > 0
        # 3: the new bracket's label and closing symbol, and EOS.
        may_open = has_words & (state.words + state.depth + 3 <= state.ids_left)
        # At most one id ends something: EOS the tree, or a closing symbol the innermost bracket.
        end = tf.where(~has_words & (state.depth == 0), EOS_ID, closer)[..., None]
        next_class = tf.gather(state.classes, tf.maximum(state.words, 0), batch_dims=2)
        leaves = tf.gather(self._leaves_of, next_class) & has_words[..., None]
        openings = self._is_opener & may_open[..., None]
        endings = (np.arange(len(self._is_leaf)) == end) & (end != PAD_ID)
        return leaves | openings | endings


def _class_of(pieces: Sequence[str], classes: Sequence[str]) -> np.ndarray:
    """Returns the class of each piece as a word by itself, [vocab] int32; 0 for all others.

    Args:
        pieces: the pieces of the source's vocabulary.
        classes: the words of each class, from class 1 on, separated by blanks.
    """
    class_of: dict[str, int] = {}
    for number, words in enumerate(classes, start=1):
        class_of |= {SPACE_MARK + word: number for word in words.split(" ")}
    return np.array([class_of.get(piece, 0) for piece in pieces], np.int32)


def _symbol(piece: str) -> str:
    """Returns the symbol of a piece, such as NP for "▁NP"; "" if the piece is not a symbol.

    A symbol is a whole word, and no part of the syntax of bracketed trees.
    """
    symbol = piece.removeprefix(SPACE_MARK)
    # Round brackets and line breaks belong to the file format of treebanks.
    is_symbol = piece != symbol and not {*symbol} & {*"()\r\n", SPACE_MARK}
    return symbol if is_symbol else ""


def _may_be_tag(symbol: str) -> bool:
    """Returns whether a symbol is a tag, if it is not a label; False for "", which is no symbol."""
    # A slash alone is a tag; before a label it closes a bracket.
    return symbol != "" and (symbol == _CLOSE or not symbol.startswith(_CLOSE))
