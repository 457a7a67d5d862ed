"""Runs a SavedModel through TensorFlow's own C++ loader, without TensorFlow's Python.

A program: JSON lines in, JSON lines out, so that its process imports neither TensorFlow's Python
nor t2t_repro. `TF_LoadSessionFromSavedModel` is the C name of `tensorflow::LoadSavedModel`, which
is what TensorFlow Serving calls.

The first line is {"folder": of tensorflow, "ops": libraries of further ops, "saved_model": its
directory}; its answer is {}, or {"error": why it was not loaded}. Every further one is {"feeds":
{tensor: [dtype, shape, values]}, "fetches": [tensor]}; its answer is {tensor: [dtype, shape,
values]} or {"error": why}. Strings travel as Latin-1, a character for every byte.
"""

import ctypes
import json
import math
import sys
from pathlib import Path
from typing import Any

STRING = 7
TYPES: dict[int, Any] = {1: ctypes.c_float, 3: ctypes.c_int32, 9: ctypes.c_int64, 10: ctypes.c_bool}
STRING_BYTES = 24

POINTER = ctypes.c_void_p
RETURNS_POINTER = """TF_NewStatus TF_Message TF_NewGraph TF_NewSessionOptions TF_LoadLibrary
TF_LoadSessionFromSavedModel TF_GraphOperationByName TF_AllocateTensor TF_TensorData
TF_StringGetDataPointer"""


class Place(ctypes.Structure):
    """TF_Output: one of an operation's outputs."""

    _fields_ = (("operation", POINTER), ("index", ctypes.c_int))


class Session:
    """A SavedModel, loaded."""

    def __init__(self, folder, ops, saved_model):
        self.tf = ctypes.CDLL(str(Path(folder) / "libtensorflow_cc.so.2"))
        for name in RETURNS_POINTER.split():
            getattr(self.tf, name).restype = POINTER
        for name in ("TF_StringGetSize", "TF_Dim"):
            getattr(self.tf, name).restype = ctypes.c_int64
        self.status = POINTER(self.tf.TF_NewStatus())
        for library in ops:
            self.tf.TF_LoadLibrary(library.encode(), self.status)
            self.check()
        self.graph = POINTER(self.tf.TF_NewGraph())
        options = POINTER(self.tf.TF_NewSessionOptions())
        tags = (ctypes.c_char_p * 1)(b"serve"), 1
        given = options, None, saved_model.encode(), *tags, self.graph, None, self.status
        self.session = POINTER(self.tf.TF_LoadSessionFromSavedModel(*given))
        self.check()

    def check(self):
        if self.tf.TF_GetCode(self.status):
            message = ctypes.string_at(self.tf.TF_Message(self.status))
            raise RuntimeError(message.decode("utf-8", errors="replace"))

    def run(self, feeds, fetches):
        values = (POINTER * len(feeds))(*(self.tensor(*value) for value in feeds.values()))
        results = (POINTER * len(fetches))()
        inputs = self.places(feeds), values, len(feeds)
        outputs = self.places(fetches), results, len(fetches)
        self.tf.TF_SessionRun(self.session, None, *inputs, *outputs, None, 0, None, self.status)
        self.check()
        return {name: self.value(POINTER(x)) for name, x in zip(fetches, results, strict=True)}

    def places(self, names):
        places = (Place * len(names))()
        for place, name in zip(places, names, strict=True):
            operation, _, index = name.partition(":")
            place.operation = self.tf.TF_GraphOperationByName(self.graph, operation.encode())
            place.index = int(index)
        return places

    def tensor(self, dtype, shape, values):
        size = STRING_BYTES if dtype == STRING else ctypes.sizeof(TYPES[dtype])
        dimensions = (ctypes.c_int64 * len(shape))(*shape)
        count = math.prod(shape)
        length = ctypes.c_size_t(size * count)
        tensor = POINTER(self.tf.TF_AllocateTensor(dtype, dimensions, len(shape), length))
        data = self.tf.TF_TensorData(tensor)
        if dtype != STRING:
            if count:
                (TYPES[dtype] * count).from_address(data)[:] = values
            return tensor
        for number, text in enumerate(values):
            place = POINTER(data + number * STRING_BYTES)
            self.tf.TF_StringInit(place)
            content = text.encode("latin-1")
            self.tf.TF_StringCopy(place, content, ctypes.c_size_t(len(content)))
        return tensor

    def value(self, tensor):
        dtype = self.tf.TF_TensorType(tensor)
        shape = [self.tf.TF_Dim(tensor, axis) for axis in range(self.tf.TF_NumDims(tensor))]
        count, data = math.prod(shape), self.tf.TF_TensorData(tensor)
        if not count:
            return dtype, shape, []
        if dtype != STRING:
            return dtype, shape, list((TYPES[dtype] * count).from_address(data))
        texts = []
        for number in range(count):
            place = POINTER(data + number * STRING_BYTES)
            size = self.tf.TF_StringGetSize(place)
            start = self.tf.TF_StringGetDataPointer(place)
            texts.append(ctypes.string_at(start, size).decode("latin-1"))
        return dtype, shape, texts


def main():
    session = None
    for line in map(json.loads, sys.stdin):
        try:
            if session is None:
                session = Session(**line)
                answer = {}
            else:
                answer = session.run(**line)
        except RuntimeError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
    assert not {"tensorflow", "keras", "t2t_repro", "numpy"} & set(sys.modules)
