"""A LiteRT file gives the translations of the model that it was exported from."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from copy import copy
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from t2t_repro.decoding.litert import CONFIG, MODEL, LiteRTTranslator
from t2t_repro.decoding.settings import (
    BeamSearch,
    ImportedBehaviour,
    MarianSearch,
    Sampling,
    TranslatorSettings,
)
from t2t_repro.decoding.shortlist import ShortlistFile
from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.formats.litert import write_litert_model
from t2t_repro.text.subword_model import SHARED_SUBWORDS, SubwordPair, shared
from t2t_repro.vocabulary import EOS_ID, UNK_ID
from tests.commands import WITHOUT_TENSORFLOW, outcomes_of
from tests.decoding.random_translator import ODD_LINES, random_model
from tests.processes import CHECKOUT

flatbuffer_utils = pytest.importorskip(
    "ai_edge_litert.tools.flatbuffer_utils", reason="pip install '.[litert]'"
)

LINES = [*ODD_LINES, "the river, the stone and the cloud", "a tree, a house"]
KINDS: dict[str, tuple[BeamSearch, dict[str, Any]]] = {
    "the paper's": (BeamSearch(4), {}),
    "greedy, pre-norm, own tables": (
        BeamSearch(1),
        {
            "layer": {"normalization": "pre", "activation": "gelu"},
            "tied_embeddings": "none",
            "seed": 5,
            "rows": 0,
        },
    ),
    "uneven, biases, learned positions": (
        BeamSearch(2, 1.0),
        {
            "layer": {"attention_biases": True, "d_k": 3, "d_v": 5, "norm": "RMSNormalization"},
            "num_decoder_layers": 2,
            "seed": 7,
            "positional_encoding": "learned",
            "max_length": 40,
            "tied_embeddings": "target_softmax",
        },
    ),
    "Marian's student": (
        MarianSearch(3, 0.8, word_penalty=0.1),
        {
            "layer": {"decoder_self_attention": "ssru", "activation": "swish"},
            "positional_encoding": "concatenated",
            "logits_bias": True,
            "first_position": 1,
            "source_eos": False,
            "start_id": 5,
        },
    ),
}


def translator_of(subwords, kind, lists=None):
    search, sizes = KINDS[kind]
    imported = ImportedBehaviour(True, True, (UNK_ID,)) if "start_id" in sizes else None
    settings = TranslatorSettings(search, 8, 24, imported=imported or ImportedBehaviour())
    # As a model of Marian has them: two files, which may be equal.
    sides = SubwordPair(subwords, copy(subwords)) if lists else shared(subwords)
    return Translator([random_model(subwords, **sizes)], sides, settings, lists)


def lists_for(size):
    """Some random ids for each source id."""
    random = np.random.default_rng(4)
    splits = np.cumsum([0, 0, *random.integers(0, 30, size - 1)])
    ids = random.integers(EOS_ID, size, splits[-1]).astype(np.int32)
    return ShortlistFile(splits, ids, np.array([EOS_ID, UNK_ID, *range(8, 30)], np.int32))


@pytest.fixture(scope="module")
def directory(subwords, tmp_path_factory):
    """Of the paper's model, in int8."""
    path = tmp_path_factory.mktemp("int8") / "exported"
    write_litert_model(translator_of(subwords, "the paper's"), "int8", 24, path, one_line=False)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_translations_and_scores_are_the_same(subwords, kind, tmp_path):
    lists = lists_for(subwords.size + 20) if kind == "Marian's student" else None
    translator = translator_of(subwords, kind, lists)
    write_litert_model(translator, "float32", 40, tmp_path / "exported", one_line=False)
    engine = LiteRTTranslator(tmp_path / "exported")
    assert engine.subwords.source is engine.subwords.target
    expected = translator.translate(LINES, translator.beam_size, first=None)
    for n_best in {1, translator.beam_size}:
        found = engine.translate(LINES, n_best, first=None)
        for ours, theirs in zip((some[:n_best] for some in expected), found, strict=True):
            scores = [one.score for one in ours]
            assert [one.score for one in theirs] == pytest.approx(scores, rel=1e-4, abs=1e-4)
            assert [one[:1] + one[2:] for one in theirs] == [one[:1] + one[2:] for one in ours]
    assert len({best.text for best, *_ in expected}) > 5


def test_an_int8_file_has_the_table_once_and_translates_alike(subwords, directory):
    translator = translator_of(subwords, "the paper's")
    size = np.size(translator.model.embedding.table)
    buffers = flatbuffer_utils.read_model(str(directory / MODEL)).buffers
    assert [len(one.data) for one in buffers if one.data is not None].count(size) == 1
    found = LiteRTTranslator(directory).translate(LINES, first=None)
    pairs = zip(translator.translate(LINES, first=None), found, strict=True)
    # With random weights, some of the best two are near each other.
    assert np.median([abs(ours.score - theirs.score) for (ours, *_), (theirs, *_) in pairs]) < 0.1


def test_long_sources_and_translations_are_cut_with_a_warning(directory, caplog):
    engine = LiteRTTranslator(directory)
    (best,), (short,) = engine.translate(["a tree, " * 30, "a tree"])
    assert (best.truncated, short.truncated) == (True, False)
    assert "line 1: only its beginning" in caplog.text
    with pytest.raises(UserError, match="n_best is 5"):
        engine.translate(["a"], 5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (CONFIG, b'{"version": 0}', "version is 0"),
        (CONFIG, b'{"version": 2}', "not usable"),
        (CONFIG, None, "not usable"),
        (MODEL, b"no model", "not usable"),
        (SHARED_SUBWORDS, b"{", "not usable"),
        ("subwords.model", None, "no subword model"),
    ],
)
def test_other_directories_are_one_line(directory, tmp_path, name, content, message):
    for path in directory.iterdir():
        if path.name != name:
            (tmp_path / path.name).symlink_to(path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        LiteRTTranslator(tmp_path)


def test_what_the_file_cannot_hold_is_refused_by_name(subwords, tmp_path):
    translator = translator_of(subwords, "the paper's")
    sampled = translator.with_settings(replace(translator.settings, search=Sampling()))
    near = random_model(subwords, neighbourhood=4)
    restricted = Translator([near], translator.subwords, translator.settings)
    damaged = random_model(subwords)
    damaged.embedding.table.assign(damaged.embedding.table * np.nan)
    broken = Translator([damaged], translator.subwords, translator.settings)
    cases = (sampled, r"Translator\.search"), (restricted, "neighbourhood"), (broken, "a number")
    for other, name in cases:
        with pytest.raises(UserError, match=name):
            write_litert_model(other, "int8", 24, tmp_path / "exported", one_line=False)
    assert not (tmp_path / "exported").exists()


def test_translate_needs_no_tensorflow(directory, tmp_path):
    given, flag = "a tree\n\nThe river. A house.\n", f"--litert={directory}"
    commands = [
        ("translate", [flag], given),
        ("translate", [flag, "--split_sentences"], given),
        ("translate", [flag, "--gin_param=BeamSearch.beam_size = 1"], given),
    ]
    whole, split, mistaken = outcomes_of(commands, tmp_path, WITHOUT_TENSORFLOW)
    expected = LiteRTTranslator(directory).translate(given.splitlines(), first=None)
    assert whole.out.splitlines() == [best.text for best, *_ in expected]
    assert (split.status, split.out.count("\n")) == (0, 3)
    assert mistaken.status == 2
    assert "--gin_param and --litert" in mistaken.err


@pytest.fixture
def address(directory):
    """Of a server in a process where TensorFlow cannot be imported."""
    start = "import sys; sys.modules['tensorflow'] = None; from t2t_repro.serve import cli; cli()"
    flags = [f"--litert={directory}", "--direction=en-de", "--rest_port=0"]
    command = [sys.executable, "-c", start, *flags]
    with subprocess.Popen(command, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr
            lines = map(re.compile(r"serving at (http://\S+)").search, server.stderr)
            yield next(found[1] for found in lines if found)
        finally:
            server.terminate()
    assert server.returncode == 0


def test_serve_needs_no_tensorflow(directory, address):
    def post(path, **document):
        body, kind = json.dumps(document).encode(), {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(address + path, body, kind)) as answer:
            return json.load(answer)

    texts = ["A tree.", "a house"]
    outputs = post("v1/models/translate:predict", inputs=texts)["outputs"]
    alone = LiteRTTranslator(directory).translate(texts, first=None)
    assert outputs["translation"] == [best.text for best, *_ in alone]
    found = post("translate", q=texts, source="en", target="de", alternatives=1)
    assert list(map(bool, found["translatedText"])) == [True, True]


@pytest.mark.slow
def test_a_folder_without_tensorflow_is_small_and_translates(directory, tmp_path):
    environment = {**os.environ, "PYTHON": sys.executable}
    environment.pop("PYTHONPATH", None)
    folder = tmp_path / "litert"
    subprocess.run(["bash", "scripts/litert.sh", folder], cwd=CHECKOUT, env=environment, check=True)
    command = [folder / "bin" / "python", "-m", "t2t_repro.translate", f"--litert={directory}"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, input="a tree\n", stdout=subprocess.PIPE, text=True
    )
    ((best,),) = LiteRTTranslator(directory).translate(["a tree"], first=None)
    assert done.stdout == f"{best.text}\n"
    assert not [*folder.rglob("tensorflow")]
    assert sum(path.lstat().st_size for path in folder.rglob("*")) < 250e6


DRIVE = """
const { chromium } = require("playwright-core");
(async () => {
  const [url, executablePath, text] = process.argv.slice(1);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForSelector("#translate:enabled");
  await page.context().setOffline(true);
  await page.fill("#text", text);
  await page.click("#translate");
  await page.waitForSelector("#translate:enabled");
  console.log(JSON.stringify(await page.textContent("#translation")));
  await browser.close();
})();
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Marian's student", "greedy, pre-norm, own tables"])
def test_the_page_translates_in_a_browser_without_the_network(subwords, kind, tmp_path):
    chromium, npm = shutil.which("chromium"), shutil.which("npm")
    if not (chromium and npm):
        pytest.skip("apt-get install chromium npm")
    lists = lists_for(subwords.size + 20) if kind == "Marian's student" else None
    folder = tmp_path / "exported"
    write_litert_model(translator_of(subwords, kind, lists), "float32", 24, folder, one_line=True)
    shutil.copy(CHECKOUT / "docs" / "browser.html", folder)
    page = (CHECKOUT / "docs" / "serving.md").read_text(encoding="utf-8")
    (packages,) = re.findall(r"npm install (.*)", page)
    command = [npm, "install", *packages.split(), "playwright-core@1.65.1"]
    subprocess.run(command, cwd=folder, check=True)
    lines = [line for line in LINES if line.isprintable()]
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}/browser.html"
        command = ["node", "-e", DRIVE, url, chromium, "\n".join(lines)]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=False)
        server.shutdown()
    expected = [best.text for best, *_ in LiteRTTranslator(folder).translate(lines, first=None)]
    found = zip(json.loads(done.stdout).split("\n"), expected, strict=True)
    # The page's SentencePiece is older: it puts other blanks beside what is unknown.
    known = [pair for pair in found if "\u2047" not in pair[1]]
    assert [text for text, _ in known] == [text for _, text in known]
    assert len({*known}) > 5
