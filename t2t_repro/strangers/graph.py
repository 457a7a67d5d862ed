"""A SavedModel of anyone, looked through before TensorFlow loads and runs it.

A graph is a program: TensorFlow has operations that read and write any file of the machine.
"""

from itertools import chain
from pathlib import Path

from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

from t2t_repro.errors import UserError
from t2t_repro.strangers.checkpoint_index import check_index

_REFUSED = {
    "DebugIdentity", "DebugIdentityV2", "DebugIdentityV3", "DebugNanCount", "DebugNumericSummary",
    "DebugNumericSummaryV2", "EagerPyFunc", "FixedLengthRecordDataset",
    "FixedLengthRecordDatasetV2", "FixedLengthRecordReader", "FixedLengthRecordReaderV2",
    "LMDBDataset", "LMDBReader", "LoadDataset", "MatchingFiles", "MatchingFilesDataset",
    "PrintV2", "PyFunc", "PyFuncStateless", "ReadFile", "SaveDataset", "SaveDatasetV2",
    "SqlDataset", "TFRecordDataset", "TFRecordDatasetV2", "TFRecordReader", "TFRecordReaderV2",
    "TextLineDataset", "TextLineDatasetV2", "TextLineReader", "TextLineReaderV2", "WholeFileReader",
    "WholeFileReaderV2", "WriteFile",
}  # fmt: skip


def check_graph(path: Path, graph: MetaGraphDef) -> None:
    """Makes sure that a servable translates and does nothing else, as ours do.

    Args:
        path: the SavedModel's directory.
        graph: the one in it.

    Raises:
        UserError: an operation reads or writes files, or calls Python; or the index of its
            variables is damaged.
    """
    functions = (function.node_def for function in graph.graph_def.library.function)
    nodes = chain(graph.graph_def.node, chain.from_iterable(functions))
    if refused := sorted({node.op for node in nodes} & _REFUSED):
        raise UserError(
            f"{path} has the operations {', '.join(refused)}, which reach out of the model, "
            "expected none: give a servable that export wrote."
        )
    variables = path / "variables" / "variables"
    if variables.with_suffix(".index").exists():
        check_index(variables)
