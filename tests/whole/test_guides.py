"""README and docs/: what they name exists, commands and bindings are accepted, links work."""

import re
import shlex
from pathlib import Path

import gin
import pytest

import attention_images  # noqa: F401 (for gin)
import bpe_dropout  # noqa: F401 (for gin)
import noised_source  # noqa: F401 (for gin)
import t2t_repro
import tag_dictionary  # noqa: F401 (for gin)
import text_variants  # noqa: F401 (for gin)
from t2t_repro import experiment
from t2t_repro.__main__ import COMMANDS as LISTED
from t2t_repro.config.checks import parameters_of

ROOT = Path(__file__).parents[2]


def text_of(path):
    return path.read_text(encoding="utf-8")


GUIDES = {path.name: text_of(path) for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
LINKED = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks/README.md")
)
README = GUIDES["README.md"]
ALL = "\n".join(GUIDES.values()).replace("\\\n", "")
COMMANDS = sorted(set(re.findall(r"python -m t2t_repro\.\w+(?:\(\)|[^`\n(;])*", ALL)))
# Of the reader's own modules: docs/extending.md shows them, test_extending.py runs them.
OWN = re.compile(r"MyCorpus|@(?:My|my_|make_|EpsilonSampling)")


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"\b(?:gin|scripts|benchmarks)/[\w/]+\.\w+", ALL)))
)
def test_files_exist(path):
    # gin/mine.gin is the reader's to write.
    assert path == "gin/mine.gin" or (ROOT / path).is_file()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w/]+/(?:\w+\.py)?)`", ALL))))
def test_files_of_the_package_exist(path):
    # A model directory's folders are a run's to make.
    run = {"checkpoints/"}
    assert path in run or (ROOT / "t2t_repro" / path).exists() or (ROOT / path).exists()


def test_all_verbs_of_the_package_are_shown():
    sources = {path.stem for path in (ROOT / "t2t_repro").glob("*.py")} - {"__main__"}
    runnable = {
        name
        for name in sources
        if '__name__ == "__main__"' in text_of(ROOT / "t2t_repro" / f"{name}.py")
    }
    assert set(re.findall(r"python -m t2t_repro\.(\w+)", README)) == runnable == set(LISTED)


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_are_defined(command):
    words = shlex.split(command, comments=True)
    module = text_of(ROOT / "t2t_repro" / f"{words[2].split('.')[1]}.py")
    source = module + text_of(ROOT / "t2t_repro" / "command_line" / "flags.py")
    if "from t2t_repro.import_marian import" in module:
        source += text_of(ROOT / "t2t_repro" / "import_marian.py")
    for word in words[3:]:
        if word.startswith("--"):
            assert f'"{word[2:].split("=")[0]}"' in source


# Flags of absl and TensorFlow.
THEIRS = {"help", "tf_xla_persistent_cache_directory"}


def test_flags_that_are_named_alone_are_somebody_s():
    sources = *(ROOT / "t2t_repro").rglob("*.py"), *(ROOT / "scripts").glob("*.sh")
    known = "".join(map(text_of, sources))
    for flag in set(re.findall(r"`--(\w+)", ALL)) - THEIRS:
        patterns = f'"{flag}"', f'DEFINE_bool("{flag.removeprefix("no")}"', f"--{flag}=*)"
        assert any(pattern in known for pattern in patterns), flag


EXAMPLES = {
    (page, match[1])
    for page, text in GUIDES.items()
    for match in re.finditer(r"```\w*\n(include 'gin/.*?)```", text, re.DOTALL)
}


@pytest.mark.parametrize(("page", "example"), sorted(EXAMPLES))
def test_an_example_of_an_experiment_is_accepted(page, example, tmp_path, monkeypatch):
    path = tmp_path / "mine.gin"
    path.write_text(example, encoding="utf-8")
    monkeypatch.chdir(ROOT)
    experiment.configure(path, [])


NAMED = re.findall(r'--gin_param="([^"]+)"', ALL)
NAMED += re.findall(r"`([A-Za-z]\w*\.\w+ = [^`]+)`", ALL)
BINDINGS = sorted({binding for binding in NAMED if not OWN.search(binding)})


# Bindings that have these called.
USES = {
    "MarianSearch": ["Translator.search = @MarianSearch()"],
    "SubwordDropout": ["Batches.segmentation = @SubwordDropout()"],
    "bracket_f1": ["evaluate.metrics = [@bracket_f1]"],
    "InverseSquareRoot": ["adam.learning_rate = @InverseSquareRoot()"],
    "MinimumBayesRisk": ["Translator.rerank = @MinimumBayesRisk()"],
}


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_binding_is_accepted(binding, monkeypatch):
    monkeypatch.chdir(ROOT)
    name = "multi30k_tiny" if "Multi30k" in binding else "base_ende"
    owner = binding.split(".")[0]
    experiment.configure(f"gin/{name}.gin", [binding, *USES.get(owner, [])])


FILE = re.compile(
    r"\.(py|md|gin|sh|json|ya?ml|txt|spm|npz|h5|bin|pbtxt|tsv|de|en|model|safetensors|tflite|html)$"
)
# Names with a dot that gin does not configure.
NOT_CONFIGURED = {
    "MarianMTModel", "MarianTokenizer", "constraints", "dev", "experiment", "given", "lm_head",
    "t2t_repro", "test", "tf", "torch", "wandb",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Za-z]\w*\.[a-z]\w*)`", ALL))))
def test_a_parameter_that_is_named_exists(name):
    owner, parameter = name.split(".")
    if owner not in NOT_CONFIGURED and not FILE.search(name):
        settings = gin.get_configurable(owner)
        # A class of the same name has methods.
        owners = settings, getattr(t2t_repro, owner, settings)
        assert parameter in parameters_of(settings) or any(hasattr(o, parameter) for o in owners)


# Links


def anchors(text):
    """Returns the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```", "", text_of(path), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r'\]\(([^)]+)\)|(?:src|href)="([^"]+)"', text)
    for link in filter(None, (one for pair in links for one in pair)):
        if re.match(r"https?://", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(text_of(target)), link


def test_no_page_is_an_orphan():
    linked = {Path(link).name for link in re.findall(r"\]\(([^)#:]+\.md)", ALL)}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= linked
