"""gin text, parsed but not acted on."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gin.config_parser import BindingStatement, ConfigParser, ParserDelegate

from t2t_repro.errors import UserError

# Configurables and parameters that have another name in older gin files.
_RENAMED = {
    "GivenSubwords": "ExistingSubwords",
    "Pace": "TrainingSchedule",
    "Pace.report_every": "TrainingSchedule.log_every",
    "TrainStep.slices": "TrainStep.micro_batches",
    "Translator.choose": "Translator.rerank",
    "Translator.forbid_pad": "ImportedBehaviour.forbid_pad",
    "Translator.forbidden_ids": "ImportedBehaviour.forbidden_ids",
    "Translator.max_length_factor": "ImportedBehaviour.max_length_factor",
    "Translator.renormalize": "ImportedBehaviour.renormalize",
}

# Configurables that were once the package's, and the modules beside gin files that now have them.
MOVED = {
    "NoisedSource": "noised_source",
    "SubwordDropout": "bpe_dropout",
    "attention_images": "attention_images",
}

# gin's error about a value that is not a literal, such as `path = data`; group 1 is that value.
# Python's part of the message has an address in memory: <ast.Name object at 0x7f...>.
_NO_LITERAL = re.compile(r"malformed node or string[^\n]*>\n?\s*Failed to parse token ('.*')")


class Reference(str):
    """A reference as a value: "@name", "@name()" or "%macro"; its repr is as in a gin file."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @property
    def selector(self) -> str:
        """The name without its scope: "module.name" of "@scope/module.name()"."""
        return self.strip("@%()").split("/")[-1]

    @property
    def name(self) -> str:
        """The name without scope and modules."""
        return self.selector.split(".")[-1]

    @property
    def is_macro(self) -> bool:
        """Whether it is "%macro"."""
        return self.startswith("%")

    @property
    def scope(self) -> str:
        """The scopes in which it is called, such as "a/b/"; "" for none; of a macro its own name.

        gin calls what a macro refers to in a scope of the macro's name.
        """
        name = self.strip("@%()")
        return f"{name}/" if self.is_macro else name.removesuffix(name.split("/")[-1])


class _ReferencesAsText(ParserDelegate):
    """Makes a `Reference` of each reference; gin itself would look up its configurable."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
        """Returns "@name", or "@name()" if gin would call (evaluate) it, with its current name."""
        call = "()" if evaluate else ""
        return Reference(f"@{current_name(scoped_configurable_name)}{call}")

    def macro(self, macro_name: str) -> Reference:
        """Returns "%name"."""
        return Reference(f"%{macro_name}")


def statements(text: str, name: str = "the configuration") -> list[Any]:
    """Parses a text as gin does, without acting on it.

    Args:
        text: bindings, imports and includes.
        name: the name of its file, for errors.

    Returns:
        gin's statements; references are of the class `Reference`.

    Raises:
        UserError: gin cannot parse it.
    """
    file = io.StringIO(text)
    # gin's errors name the file by this attribute.
    file.name = name
    with one_line_errors():
        return list(ConfigParser(file, _ReferencesAsText()))


def bindings_in(text: str, name: str = "the configuration") -> dict[str, Any]:
    """Returns the values that a text binds, by the current names of parameters and macros.

    Args:
        text: bindings, perhaps with older names; imports and includes are ignored.
        name: the name of its file, for errors.

    Raises:
        UserError: gin cannot parse it.
    """
    bindings = (line for line in statements(text, name) if isinstance(line, BindingStatement))
    return {name_of(binding): binding.value for binding in bindings}


def name_of(binding: BindingStatement) -> str:
    """Returns a parameter's or macro's current name, without modules: "a/Transformer.d_model"."""
    scope = f"{binding.scope}/" if binding.scope else ""
    parameter = f".{binding.arg_name}" if binding.arg_name else ""
    return current_name(f"{scope}{binding.selector.split('.')[-1]}{parameter}")


def owner_of(name: str) -> str:
    """Returns "Transformer" for "a/Transformer.d_model", and a macro's name for the macro.

    `name` is as `name_of` writes it, without modules.
    """
    return name.split("/")[-1].split(".")[0]


def references_in(value: Any) -> Iterator[Reference]:
    """Yields the references in a value: itself, or those in nested tuples, lists and dictionaries.

    In a dictionary, keys may be references too.
    """
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, list | tuple | dict):
        items = [*value, *value.values()] if isinstance(value, dict) else value
        for item in items:
            yield from references_in(item)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns any error that gin raises in the block into a UserError of one line."""
    try:
        yield
    except Exception as error:
        # Any, since gin passes on errors of Python's tokenizer and parser too, such as TokenError.
        message = _NO_LITERAL.sub(r"\1 is not a value; a text needs quotes", str(error))
        raise UserError(f"gin: {' '.join(message.split())}") from error


def current_name(name: str) -> str:
    """Returns the current name of a configurable or parameter of an older gin file.

    "a/Pace.steps" gives "a/TrainingSchedule.steps", since Pace was renamed. Scopes stay, and so do
    names that are current.
    """
    scope, slash, parameter = name.rpartition("/")
    owner, dot, argument = parameter.partition(".")
    renamed = _RENAMED.get(parameter) or f"{_RENAMED.get(owner, owner)}{dot}{argument}"
    return f"{scope}{slash}{renamed}"
