"""An exported model, through TensorFlow's own C++ loader, against the translator in Python."""

import importlib.util
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from t2t_repro.data.subwords import Subwords
from t2t_repro.decoding.beam_search import UNFILLED_SCORE, BeamSearch
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.serving.saved_model import next_version, write_saved_model
from t2t_repro.serving.servable import Servable
from t2t_repro.serving.server_files import SERVER_FILES
from t2t_repro.serving.stored_weights import StoredWeights
from t2t_repro.serving.warm_up import WARM_UP_FILE
from t2t_repro.vocabulary import EOS_ID, PAD_ID
from tests.decoding.random_translator import ODD_LINES, random_model, write_subwords

BEAM, ALPHA, EXTRA, LONGEST = 4, 0.6, 8, 24
STRANGE = [b"a \xff\xfe tree", b"\xed\xa0\x80", b"\xc3", b"the red bird"]
LINES = [*ODD_LINES, "a river " * 700, "the red stone and a cloud"]
TYPES = {tf.float32: 1, tf.int32: 3, tf.string: 7, tf.bool: 10}


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    return Subwords(write_subwords(tmp_path_factory.mktemp("subwords") / "made.model"))


@pytest.fixture(scope="module")
def translator(subwords):
    return make_translator(random_model(subwords), subwords)


def make_translator(model, subwords):
    # So few tokens a batch that a request becomes several groups.
    return Translator(
        model, subwords, BeamSearch(BEAM, ALPHA), EXTRA, LONGEST, tokens_per_batch=160
    )


@pytest.fixture(scope="module")
def export_dir(translator, tmp_path_factory):
    export_dir = tmp_path_factory.mktemp("exported")
    write_saved_model(Servable(translator, "float32"), export_dir, 3, "made")
    return export_dir


@pytest.fixture(scope="module")
def graph(export_dir):
    saved = SavedModel.FromString((export_dir / "3" / "saved_model.pb").read_bytes())
    assert len(saved.meta_graphs) == 1
    return saved.meta_graphs[0]


def warm_up_requests(export_dir):
    records = tf.data.TFRecordDataset(str(export_dir / "3" / WARM_UP_FILE)).as_numpy_iterator()
    for record in records:
        request = PredictionLog.FromString(record).predict_log.request
        yield request, {name: tf.make_ndarray(value) for name, value in request.inputs.items()}


@contextmanager
def cpp_session(saved_model, ops):
    """A function that asks `cpp_session.py`, which has a process of its own."""
    folder = importlib.util.find_spec("tensorflow").submodule_search_locations[0]
    command = [sys.executable, "-I", Path(__file__).with_name("cpp_session.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:

        def ask(request):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        loaded = ask({"folder": folder, "ops": ops, "saved_model": str(saved_model)})
        yield ask, loaded
        process.stdin.close()
        assert process.wait(60) == 0


def text_libraries():
    """The operations of tensorflow-text, which TensorFlow Serving has linked in."""
    folder = importlib.util.find_spec("tensorflow_text").submodule_search_locations[0]
    return sorted(map(str, Path(folder, "python", "ops").glob("_*.so")))


def call(graph, signature, inputs):
    """A call of `cpp_session.py`."""
    signature = graph.signature_def[signature]
    feeds = {}
    for name, values in inputs.items():
        place = signature.inputs[name]
        array = np.asarray(values, dtype=object if place.dtype == TYPES[tf.string] else None)
        flat = array.reshape(-1).tolist()
        if place.dtype == TYPES[tf.string]:
            flat = [(x if isinstance(x, bytes) else x.encode()).decode("latin-1") for x in flat]
        feeds[place.name] = [place.dtype, array.shape, flat]
    return {"feeds": feeds, "fetches": [place.name for place in signature.outputs.values()]}


@pytest.fixture(scope="module")
def serve(export_dir, graph):
    """Answers a request to a signature of the SavedModel: arrays by name, texts as bytes."""
    with cpp_session(export_dir / "3", text_libraries()) as (ask, loaded):
        assert loaded == {}

        def serve(signature, inputs):
            result = ask(call(graph, signature, inputs))
            assert "error" not in result, result
            outputs = graph.signature_def[signature].outputs
            return {name: as_array(*result[place.name]) for name, place in outputs.items()}

        yield serve


def as_array(dtype, shape, values):
    if dtype == TYPES[tf.string]:
        return np.array([text.encode("latin-1") for text in values], object).reshape(shape)
    return np.array(values).reshape(shape)


def texts_of(array):
    return [text.decode() for text in array.ravel()]


def test_texts_and_scores_are_those_of_the_translator(serve, translator, subwords):
    ids = tf.ragged.constant(subwords.encode(LINES), dtype=tf.int32).to_tensor(PAD_ID).numpy()
    best = serve("serving_default", {"source": LINES})
    alone = serve("serving_default", {"source": LINES[:1]})
    several = serve("nbest", {"source": LINES})
    of_ids = serve("token_ids", {"source_ids": ids})
    expected = [translations[0] for translations in translator.translate(LINES)]
    scores = [translation.score for translation in expected]
    assert texts_of(best["translation"]) == [translation.text for translation in expected]
    np.testing.assert_allclose(best["score"], scores, rtol=1e-5, atol=1e-5)
    assert len(set(texts_of(best["translation"]))) > 5
    assert alone["translation"].tolist() == best["translation"][:1].tolist()

    lengths = [len(row) for row in subwords.encode(LINES)]
    truncated = [
        length > LONGEST and bool(line.strip()) for length, line in zip(lengths, LINES, strict=True)
    ]
    assert best["truncated"].tolist() == several["truncated"].tolist() == truncated
    assert sum(truncated) == 3

    assert several["translation"].shape == several["score"].shape == (len(LINES), BEAM)
    for texts, scores, found in zip(
        several["translation"], several["score"], translator.translate(LINES, BEAM), strict=True
    ):
        missing = BEAM - len(found)
        assert texts_of(texts) == [translation.text for translation in found] + [""] * missing
        in_python = [translation.score for translation in found] + [UNFILLED_SCORE] * missing
        np.testing.assert_allclose(scores, in_python, rtol=1e-5, atol=1e-5)

    # What is blank is only known from the text.
    for row, text, source in zip(
        of_ids["translation_ids"], best["translation"], LINES, strict=True
    ):
        assert not source.strip() or subwords.decode(row) == text.decode()


def test_ids_may_be_padded_anyhow(serve):
    asked = [
        [[7, 300, 9, EOS_ID], [7, 290, 9, EOS_ID]],
        [[7, 300, 9], [7, 290, 9]],
        [[PAD_ID, 7, 300, PAD_ID, 9, EOS_ID, 8], [7, 290, 9, EOS_ID, PAD_ID, PAD_ID, 5]],
        [[PAD_ID, EOS_ID], [9, -4], [9, 10**6]],
    ]
    first, *others, strange = (serve("token_ids", {"source_ids": ids}) for ids in asked)
    assert (first["translation_ids"] != PAD_ID).any(axis=0).all()
    for other in others:
        assert other["translation_ids"].tolist() == first["translation_ids"].tolist()
    assert strange["translation_ids"][0].tolist() == [PAD_ID] * strange["translation_ids"].shape[1]
    assert strange["translation_ids"][1].tolist() == strange["translation_ids"][2].tolist()


def log_prob(model, source, target):
    """log P(target | source), all positions at once."""
    logits = np.asarray(model((np.array([source]), np.array([target])), training=False))[0]
    log_probs = tf.nn.log_softmax(logits.astype(np.float64)).numpy()
    return log_probs[np.arange(len(target)), target].sum()


def test_a_given_translation_is_scored_by_the_model(serve, subwords, translator):
    sources = ["the red bird", "", "x", "a river " * 99, "🙂", "a"]
    targets = ["a tree", "a", "", "the", "a river " * 99, "a"]
    scored = serve("score", {"source": sources, "target": targets})
    longest = LONGEST + EXTRA
    rows = [
        [[*row[: most - 1], EOS_ID] if len(row) > most else row for row in subwords.encode(lines)]
        for lines, most in ((sources, LONGEST), (targets, longest))
    ]
    expected = [log_prob(translator.model, *pair) for pair in zip(*rows, strict=True)]
    np.testing.assert_allclose(scored["log_probability"], expected, rtol=1e-5)
    assert scored["length"].tolist() == list(map(len, rows[1]))
    assert scored["truncated"].tolist() == [False, False, False, True, True, False]


def test_whatever_a_request_holds_it_is_answered(serve):
    nothing = np.zeros([0], object)
    asked = (
        ("serving_default", {"source": nothing}),
        ("nbest", {"source": nothing}),
        ("score", {"source": nothing, "target": nothing}),
        ("token_ids", {"source_ids": np.zeros([0, 3], np.int32)}),
        ("token_ids", {"source_ids": np.zeros([2, 0], np.int32)}),
        ("serving_default", {"source": ["", "  "]}),
        ("serving_default", {"source": STRANGE}),
        ("serving_default", {"source": [text.decode(errors="replace") for text in STRANGE]}),
        ("serving_default", {"source": ["x" * 5000]}),
    )
    answers = [serve(*request) for request in asked]
    for answer, rows in zip(answers, (0, 0, 0, 0, 2, 2, 4, 4, 1), strict=True):
        assert {len(output) for output in answer.values()} == {rows}
    assert answers[1]["translation"].shape == (0, BEAM)
    assert answers[4]["score"].tolist() == answers[5]["score"].tolist() == [0.0, 0.0]
    assert texts_of(answers[5]["translation"]) == ["", ""]
    assert answers[6]["translation"].tolist() == answers[7]["translation"].tolist()
    np.testing.assert_allclose(answers[6]["score"], answers[7]["score"], rtol=1e-5)
    assert answers[8]["truncated"].tolist() == [True]


def test_the_warm_up_requests_are_answered(serve, export_dir, graph):
    asked = list(warm_up_requests(export_dir))
    assert {request.model_spec.name for request, _ in asked} == {"made"}
    signatures = [request.model_spec.signature_name for request, _ in asked]
    public = {name for name in graph.signature_def if not name.startswith("__")}
    assert set(signatures) == public == {"serving_default", "nbest", "token_ids", "score"}
    for name, (_, inputs) in zip(signatures, asked, strict=True):
        answer = serve(name, inputs)
        assert {len(x) for x in answer.values()} == {len(x) for x in inputs.values()}
    defaults = [
        x["source"] for name, (_, x) in zip(signatures, asked, strict=True) if "def" in name
    ]
    assert len({len(source) for source in defaults}) > 1
    assert len({max(map(len, source)) for source in defaults}) > 1


def test_without_the_operations_of_tensorflow_text_it_is_refused(export_dir):
    with cpp_session(export_dir / "3", []) as (_, loaded):
        assert "Sentencepiece" in loaded["error"]


def nodes(graph):
    yield from graph.graph_def.node
    for function in graph.graph_def.library.function:
        yield from function.node_def


def test_every_operation_is_one_of_tensorflow_2_12(graph):
    lines = Path(__file__).with_name("ops_2_12.txt").read_text().splitlines()[1:]
    known = {name: set(attributes) for name, *attributes in map(str.split, lines)}
    functions = {function.signature.name for function in graph.graph_def.library.function}
    used = set()
    for node in nodes(graph):
        used.add(node.op)
        assert node.op in known.keys() | functions
        # A note that loaders which don't know it pass over.
        attributes = {name for name in node.attr if name[0] != "_"} - {"debug_name"}
        assert attributes <= known.get(node.op, set()), node.op
    assert {"SentencepieceTokenizeOp", "SentencepieceDetokenizeOp", "InplaceUpdate"} <= used


def test_nothing_is_left_to_xla(graph):
    for owner in [*nodes(graph), *graph.graph_def.library.function]:
        for name, value in owner.attr.items():
            assert not ("xla" in name.lower() and value.b), owner
            assert "jit" not in name.lower(), owner


def test_inputs_and_outputs_begin_with_the_batch(graph):
    for name, signature in graph.signature_def.items():
        if not name.startswith("__"):
            for place in [*signature.inputs.values(), *signature.outputs.values()]:
                assert place.tensor_shape.dim[0].size == -1
                assert not place.tensor_shape.unknown_rank


def test_the_weights_are_stored_once(export_dir, translator):
    prefix = str(export_dir / "3" / "variables" / "variables")
    stored = 0
    for name, shape in tf.train.list_variables(prefix):
        if "OBJECT_GRAPH" not in name:
            stored += tf.train.load_variable(prefix, name).nbytes
            assert shape
    weights = translator.model.trainable_variables
    assert stored == sum(4 * int(np.prod(weight.shape)) for weight in weights)


def found_by(servable, lines):
    found = servable.translate(tf.constant(lines))
    return texts_of(found["translation"].numpy()), found["score"].numpy()


def test_int8_gives_what_the_translator_gives_with_the_rounded_weights(subwords):
    model = random_model(subwords)
    translator = make_translator(model, subwords)
    servable = Servable(translator, "int8")
    texts, scores = found_by(servable, LINES[:9])
    exact = [weight.numpy() for weight in model.trainable_variables]
    for weight, value in zip(
        model.trainable_variables, StoredWeights(model, "int8").read(), strict=True
    ):
        weight.assign(value)
    assert any(
        (a != b.numpy()).any() for a, b in zip(exact, model.trainable_variables, strict=True)
    )
    expected = [translations[0] for translations in translator.translate(LINES[:9])]
    assert texts == [translation.text for translation in expected]
    np.testing.assert_allclose(scores, [t.score for t in expected], rtol=1e-5, atol=1e-5)


def test_bfloat16_gives_what_mixed_precision_gives(subwords):
    translator = make_translator(random_model(subwords, "mixed_bfloat16"), subwords)
    servable = Servable(translator, "bfloat16")
    line = LINES[-1]
    ((expected,),) = translator.translate([line])
    texts, scores = found_by(servable, [line])
    assert texts == [expected.text]
    assert scores[0] == pytest.approx(expected.score, abs=1e-5)


def test_versions_are_counted(tmp_path):
    assert next_version(tmp_path / "new") == 1
    for name in ("2", "10", ".11.partial", "models.config", "12a"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == 11
    assert next_version(tmp_path, 3) == 3
    with pytest.raises(UserError, match=r"--version=10: .* holds that version already"):
        next_version(tmp_path, 10)
    with pytest.raises(UserError, match="expected 1 or more"):
        next_version(tmp_path, 0)


def test_a_version_appears_whole_or_not_at_all(tmp_path, translator, monkeypatch):
    def fail(*_):
        assert (tmp_path / ".1.partial" / "saved_model.pb").exists()
        assert not (tmp_path / "1").exists()
        raise OSError(28, "No space left on device")

    class Nothing(tf.Module):
        subwords = translator.subwords

        def signatures(self):
            return {}

    monkeypatch.setattr("t2t_repro.serving.saved_model.write_warm_up", fail)
    with pytest.raises(UserError, match="No space left on device"):
        write_saved_model(Nothing(), tmp_path, 1, "made")
    assert list(tmp_path.iterdir()) == []


def test_what_the_server_is_started_with(export_dir, tmp_path):
    names = {path.name for path in export_dir.iterdir()}
    assert names == {"3", *SERVER_FILES}
    config = text_format.Parse((export_dir / "models.config").read_text(), ModelServerConfig())
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path) == ("made", "/models/made")
