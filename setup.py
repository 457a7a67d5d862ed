import ast
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
BABEL = "Babel>=2.14,<3"  # of gin/generated_corpus.py, and the names of languages
PLOTS = "matplotlib>=3.8,<4"
CTRANSLATE2 = "ctranslate2>=4.8,<5"
ARRAY_RECORD = "array_record>=0.5"
LITERT = "ai-edge-litert>=2.3,<2.4"


def constant(file, name):
    """Returns what a module of the package assigns to a name, without importing it."""
    tree = ast.parse((HERE / "t2t_repro" / file).read_text(encoding="utf-8"))
    return next(
        ast.literal_eval(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign) and statement.targets[0].id == name
    )


COMMANDS = constant("__main__.py", "COMMANDS")


class BuildWithExperiments(build_py):
    """Puts the gin files into the package, for where there is no checkout."""

    def run(self) -> None:
        """Builds the package."""
        super().run()
        if not self.editable_mode:
            package = Path(self.build_lib) / "t2t_repro"
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(HERE / "gin", package / "gin", ignore=ignored, dirs_exist_ok=True)


# The server for trying a model.
SERVE = "aiohttp>=3.14.4,<4"  # Earlier ones keep silent connections for ever.

setup(
    name="t2t_repro",
    version=constant("__init__.py", "__version__"),
    description="'Attention Is All You Need', whole, in TensorFlow 2 and Keras 3.",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    packages=find_packages(include=["t2t_repro", "t2t_repro.*"]),
    package_data={
        "t2t_repro": ["py.typed", "*.pyi"],
        "t2t_repro.attention": ["*.html"],
        "t2t_repro.serving": ["*.html"],
        "t2t_repro.formats": ["*.yml", "*/*.yml"],
        "t2t_repro.formats.hugging_face": ["*.md"],
        "t2t_repro.formats.saved_model": ["for_server/*"],
    },
    cmdclass={"build_py": BuildWithExperiments},
    entry_points={
        "console_scripts": [
            "t2t-repro = t2t_repro.__main__:cli",
            *(
                f"t2t-repro-{command.replace('_', '-')} = t2t_repro.{command}:cli"
                for command in COMMANDS
            ),
        ]
    },
    python_requires=">=3.11,<3.14",
    install_requires=[
        "tensorflow>=2.21,<2.22",
        "keras>=3.12,<4",
        "tensorboard>=2.21",  # TensorFlow no longer brings it; earlier ones need pkg_resources
        "tensorflow-text>=2.20,<2.22",
        "tensorflow-serving-api>=2.21,<2.22",  # messages alone: kilobytes
        "tensorflow-datasets>=4.9.8,<5",
        "importlib_resources>=6",  # tensorflow-datasets' WMT builders import it undeclared
        "sentencepiece>=0.2,<0.3",
        "sacrebleu>=2.4,<3",
        "sacremoses>=0.1.1,<0.3",
        "sentencex>=1.0.32,<2",
        "absl-py>=2.1",
        "h5py>=3.10",
        "safetensors>=0.5,<1",
        "PyYAML>=6",
        "gin-config>=0.5,<0.6",
        "filelock>=3.32,<4",  # earlier ones do not notice that a lock was deleted
        "numpy>=1.26",
        "tqdm>=4.66",
    ],
    extras_require={
        "serve": [SERVE, BABEL],
        "ctranslate2": [CTRANSLATE2, BABEL],
        # Without TensorFlow: scripts/litert.sh.
        "litert": [LITERT, SERVE, BABEL],
        "plots": [PLOTS],
        "quickstart": [BABEL],
        # Beyond Linux, where tensorflow-datasets brings it: data sets stored as ArrayRecords.
        "array_record": [ARRAY_RECORD],
        # Downloads models by name for import_marian and import_hugging_face.
        "hub": ["huggingface_hub>=0.30"],
        "gpu": ["tensorflow[and-cuda]>=2.21,<2.22"],
        "test": [
            "pytest>=8",
            "pytest-xdist>=3.5,<4",
            "hypothesis>=6.100",
            "ruff>=0.17,<0.18",
            "mypy>=2.4,<2.5",
            # Holds Kubernetes' schemas.
            "kubernetes-validate>=1.31",
            # Runs docs/keras.ipynb.
            "ipykernel>=6",
            "nbclient>=0.10",
            "nbformat>=5.10",
            PLOTS,
            BABEL,
            CTRANSLATE2,
            LITERT,
            ARRAY_RECORD,
            SERVE,
        ],
    },
)
