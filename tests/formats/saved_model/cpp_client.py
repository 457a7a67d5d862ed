"""Asks a SavedModel that `cpp_session.py` has loaded, in a process of its own."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

PROGRAM = Path(__file__).with_name("cpp_session.py")
STRING = 7


@contextmanager
def cpp_session(saved_model, ops) -> Iterator:
    """A function that asks for an answer, and the answer to the loading."""
    command = [sys.executable, "-I", str(PROGRAM)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        requests, answers = process.stdin, process.stdout

        def ask(request):
            requests.write(json.dumps(request) + "\n")
            requests.flush()
            return json.loads(answers.readline())

        folder = str(folder_of("tensorflow"))
        yield ask, ask({"folder": folder, "ops": ops, "saved_model": str(saved_model)})
        requests.close()
        assert process.wait(60) == 0


def folder_of(package):
    """Where a package is installed; it is not imported."""
    spec = importlib.util.find_spec(package)
    assert spec
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def text_libraries():
    """The operations of tensorflow-text, which TensorFlow Serving has linked in."""
    return sorted(map(str, (folder_of("tensorflow_text") / "python" / "ops").glob("_*.so")))


def answer_of(ask, signature, inputs):
    """What a signature (a SignatureDef) answers: arrays by name, texts as bytes."""
    feeds = {}
    for name, values in inputs.items():
        place = signature.inputs[name]
        array = np.asarray(values, dtype=object if place.dtype == STRING else None)
        flat = array.reshape(-1).tolist()
        if place.dtype == STRING:
            flat = [(x if isinstance(x, bytes) else x.encode()).decode("latin-1") for x in flat]
        feeds[place.name] = [place.dtype, array.shape, flat]
    fetches = [place.name for place in signature.outputs.values()]
    result = ask({"feeds": feeds, "fetches": fetches})
    assert "error" not in result, result
    return {name: _array(*result[place.name]) for name, place in signature.outputs.items()}


def _array(dtype, shape, values):
    if dtype == STRING:
        return np.array([text.encode("latin-1") for text in values], object).reshape(shape)
    return np.array(values).reshape(shape)


def texts_of(array):
    """The texts of an answer, in one list."""
    return [text.decode() for text in array.ravel()]
