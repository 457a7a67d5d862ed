"""How much a text of bindings may hold, said before gin parses it. No person meets these limits."""

import io
import tokenize
from collections.abc import Iterator

from t2t_repro.errors import UserError

MAX_BYTES = 2**20
"""Of a file."""

_MAX_TOKENS = 100_000
_MAX_DEPTH = 50
_MAX_NUMBER = 400
_MAX_TEXTS = 100

_UNSEEN = (tokenize.NL, tokenize.COMMENT)


def check_text(text: str, name: str) -> None:
    """Checks that gin can parse a text in a short time.

    Args:
        text: of bindings.
        name: of its file.

    Raises:
        UserError: it has too many words, a number that is too long, too many brackets one in
            another, or too many texts one behind the other.
    """
    depth = texts = 0
    for count, token in enumerate(_tokens(text)):
        place = f"gin: {name}, line {token.start[0]}:"
        if count > _MAX_TOKENS:
            raise UserError(f"gin: {name} has more than {_MAX_TOKENS:,} words, expected bindings.")
        if token.type == tokenize.NUMBER and len(token.string) > _MAX_NUMBER:
            raise UserError(f"{place} a number of more than {_MAX_NUMBER} characters; give less.")
        if token.type not in _UNSEEN:
            texts = texts + 1 if token.type == tokenize.STRING else 0
        if texts > _MAX_TEXTS:
            raise UserError(
                f"{place} more than {_MAX_TEXTS} texts one behind the other; make one of them."
            )
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        if depth > _MAX_DEPTH:
            raise UserError(f"{place} more than {_MAX_DEPTH} brackets deep; write it flatter.")


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(text).readline)
    except (tokenize.TokenError, SyntaxError):
        # gin will say so: it does not get further.
        return
