"""Writes packages of Argos Translate: a zip file with a model of CTranslate2.

translate-en_de-1_0/
  metadata.json        the languages and the version
  model/               a model directory of CTranslate2
  sentencepiece.model  splits both sides
  README.md
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from babel import Locale

from t2t_repro.decoding.translator import Translator
from t2t_repro.errors import UserError
from t2t_repro.files import whole_directory, write_json
from t2t_repro.formats.ctranslate2.export import write_ctranslate2_model
from t2t_repro.text.subword_model import SHARED_SUBWORDS


def write_argos_package(
    translator: Translator, weights: str, export_dir: Path, languages: Sequence[str], version: str
) -> Path:
    """Writes a package, whole or not at all.

    Args:
        translator: see `write_ctranslate2_model`.
        weights: "float32" or "int8".
        export_dir: the directory to make.
        languages: codes of source and target, such as "en".
        version: the package's version, such as "1.0".

    Returns:
        the path of the package.

    Raises:
        UserError: CTranslate2 cannot express the model, it has no SentencePiece model, or its
            sources begin with a language, which Argos does not write.
    """
    if tags := [*translator.tags.languages.values()]:
        problem = f"sources of the model begin with a language such as {tags[0]}"
        raise UserError(f"{problem}, which Argos does not write: give --format=ctranslate2.")
    names = [Locale("en").languages.get(code, code) for code in languages]
    # As Argos Translate names its own.
    name = f"translate-{'_'.join(languages)}-{version.replace('.', '_')}"
    metadata = {"package_version": version, "argos_version": "1.5"}
    for end, code, language in zip(("from", "to"), languages, names, strict=True):
        metadata |= {f"{end}_code": code, f"{end}_name": language}
    splitter = translator.subwords.source.sentencepiece()
    with whole_directory(export_dir) as partial:
        package = partial / name
        write_ctranslate2_model(translator, weights, package / "model")
        # Argos has one splitter. Those of two sides stay, for `import_ctranslate2`.
        (package / "model" / SHARED_SUBWORDS).unlink(missing_ok=True)
        (package / "sentencepiece.model").write_bytes(splitter)
        write_json(package / "metadata.json", metadata)
        (package / "README.md").write_text(f"# {names[0]} - {names[1]}\n\nMade with t2t_repro.\n")
        zipped = shutil.make_archive(str(package), "zip", partial, name)
        shutil.rmtree(package)
        Path(zipped).rename(partial / f"{name}.argosmodel")
    return export_dir / f"{name}.argosmodel"
