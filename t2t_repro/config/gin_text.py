"""Text in gin's language: parsed, but not acted on, and what is wrong with it in one line."""

import io
import re
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gin.config_parser import BindingStatement, ConfigParser, ImportStatement, ParserDelegate

from t2t_repro.config.limits import check_text
from t2t_repro.errors import UserError

# What gin raises for text that it cannot take: it leaves Python's own errors as they are.
_GIN_ERRORS = (
    ValueError, TypeError, SyntaxError, RuntimeError, MemoryError, NameError, AttributeError,
    tokenize.TokenError,
)  # fmt: skip
_CONFIG_DUMP = re.compile(r" in config string:.*", re.DOTALL)
# A word that is no value: Python's own error has an address in memory, and the number of no line.
_NO_LITERAL = re.compile(r"malformed node or string[^\n]*>\n?\s*Failed to parse token ('.*')")


class Reference(str):
    """A value that refers to something, as it is written: "@name", "@name()" or "%macro"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @property
    def name(self) -> str:
        """The name alone, without scope and modules."""
        return self.selector.split(".")[-1]

    @property
    def selector(self) -> str:
        """The name as gin finds what it is of: with modules, without scope."""
        return self.strip("@%()").split("/")[-1]

    @property
    def is_macro(self) -> bool:
        """Whether it is "%macro"."""
        return self.startswith("%")

    @property
    def scope(self) -> tuple[str, ...]:
        """The scopes in which it is called; a macro is one."""
        names = self.strip("@%()").split("/")
        return tuple(names if self.is_macro else names[:-1])


class _Names(ParserDelegate):
    """Takes references for what they are: names."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
        return Reference(f"@{scoped_configurable_name}{'()' * evaluate}")

    def macro(self, macro_name: str) -> Reference:
        return Reference(f"%{macro_name}")


class Text(io.StringIO):
    """A text with the name that gin gives it in errors."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


def statements(text: str, name: str) -> list[Any]:
    """Parses a text as gin does, without acting on it.

    Args:
        text: of bindings, imports and includes.
        name: of its file, for errors.

    Returns:
        gin's statements; references are of the class `Reference`.

    Raises:
        UserError: gin cannot parse it, or not in a short time.
    """
    check_text(text, name)
    with refused_by_gin():
        return list(ConfigParser(Text(text, name), _Names()))


def bindings_in(text: str) -> list[BindingStatement]:
    """The bindings of a text; see `statements`."""
    found = statements(text, "the configuration")
    return [one for one in found if isinstance(one, BindingStatement)]


def modules_in(text: str) -> list[str]:
    """The names of the modules that a text imports; see `statements`."""
    found = statements(text, "the configuration")
    return [one.module for one in found if isinstance(one, ImportStatement)]


def name_of(binding: BindingStatement) -> str:
    """A parameter's name, or a macro's, with its scope."""
    scope = f"{binding.scope}/" if binding.scope else ""
    selector = binding.selector.split(".")[-1]
    return f"{scope}{selector}.{binding.arg_name}" if binding.arg_name else f"{scope}{selector}"


@contextmanager
def refused_by_gin() -> Iterator[None]:
    """Within is nothing but gin's parser: what it raises is about the text."""
    try:
        yield
    except _GIN_ERRORS as error:
        raise UserError(f"gin: {on_one_line(error)}") from error


def on_one_line(error: Exception) -> str:
    """The message of an error, its lines joined, without the whole configuration."""
    message = _CONFIG_DUMP.sub("", str(error))
    message = _NO_LITERAL.sub(r"\1 is no value; a text needs quotes", message)
    return " ".join(line.strip() for line in message.splitlines() if line.strip())
