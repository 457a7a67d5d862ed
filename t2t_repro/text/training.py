"""Symbols that a subword model keeps whole, such as tags: <2de>, <BT>, [news]."""

from collections.abc import Sequence

from sentencepiece.sentencepiece_model_pb2 import ModelProto

from t2t_repro.errors import UserError

MOST_SYMBOLS = 1000
_LONGEST = 100
# How SentencePiece writes what is no text.
_TAKEN = ("<unk>", "<s>", "</s>", "<pad>")


def check_symbols(parameter: str, symbols: Sequence[str]) -> None:
    """Checks that symbols can be told from all other text.

    A symbol is one wherever it stands: a plain word would be one inside of longer words too.

    Args:
        parameter: where they were given, such as "Mixture.tags".
        symbols: the symbols.

    Raises:
        UserError: one cannot.
    """
    for symbol in symbols:
        if not _is_symbol(symbol):
            raise UserError(
                f"{parameter} is {symbol!r}, expected letters or digits in brackets or other "
                f"marks, without a space, such as <2de>, and none of {', '.join(_TAKEN)}."
            )


def merged(symbols: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Returns the symbols of both, each once."""
    return tuple(dict.fromkeys((*symbols, *others)))


def add_symbols(model: bytes, symbols: Sequence[str]) -> bytes:
    """Adds symbols to a SentencePiece model's file; the ids that there are stay as they are.

    Args:
        model: the file's content.
        symbols: those that it has already are not added again.

    Returns:
        the content of a new file; the same where nothing is missing.
    """
    proto = ModelProto.FromString(model)
    there = {piece.piece: piece for piece in proto.pieces}
    symbol_type = ModelProto.SentencePiece.USER_DEFINED
    missing = [one for one in symbols if one not in there or there[one].type != symbol_type]
    for symbol in missing:
        # What BPE happens to have put together stays where it is, but is taken first from now on.
        piece = there[symbol] if symbol in there else proto.pieces.add(piece=symbol)
        piece.type = symbol_type
        proto.trainer_spec.user_defined_symbols.append(symbol)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    content: bytes = proto.SerializeToString()
    return content if missing else model


def _is_symbol(symbol: str) -> bool:
    is_marked = bool(symbol) and not symbol[0].isalnum() and not symbol[-1].isalnum()
    is_word = len(symbol.split()) == 1 and "\u2581" not in symbol and symbol.isprintable()
    is_free = symbol not in _TAKEN and not symbol.startswith("<0x")
    is_plain = any(character.isalnum() for character in symbol) and len(symbol) <= _LONGEST
    return is_marked and is_word and is_free and is_plain
