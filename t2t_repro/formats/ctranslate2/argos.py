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
    """Writes a package of Argos Translate, whole or not at all.

    Args:
        translator: its model, in float32, its subwords and its limits are used; not its search.
        weights: "float32" or "int8".
        export_dir: the directory to make for the package.
        languages: the codes of source and target, such as ["en", "de"].
        version: the package's version, such as "1.0".

    Returns:
        the path of the package.

    Raises:
        UserError: CTranslate2 cannot express the model, it has no SentencePiece model, or its
            sources begin with a language code, which Argos does not write.
        OSError: the directory is not empty, or cannot be written.
    """
    if codes := [*translator.tags.languages.values()]:
        problem = f"sources of the model begin with a language code such as {codes[0]}"
        raise UserError(f"{problem}, which Argos does not write: give --format=ctranslate2.")
    # Such as ["English", "German"]; a code without a name in English is its own name.
    in_english = [Locale("en").languages.get(code, code) for code in languages]
    # As Argos Translate names its own.
    name = f"translate-{'_'.join(languages)}-{version.replace('.', '_')}"
    metadata = {"package_version": version, "argos_version": "1.5"}
    for key, code, language in zip(("from", "to"), languages, in_english, strict=True):
        metadata |= {f"{key}_code": code, f"{key}_name": language}
    sentencepiece = translator.subwords.source.sentencepiece()
    with whole_directory(export_dir) as partial:
        package = partial / name
        write_ctranslate2_model(translator, weights, package / "model")
        # A shared SentencePiece model is written once, where Argos reads it. Two of them, one for
        # each side, stay beside the model for `import_ctranslate2`; Argos reads the source's.
        (package / "model" / SHARED_SUBWORDS).unlink(missing_ok=True)
        (package / "sentencepiece.model").write_bytes(sentencepiece)
        write_json(package / "metadata.json", metadata)
        readme = f"# {' - '.join(in_english)}\n\nMade with t2t_repro.\n"
        (package / "README.md").write_text(readme, encoding="utf-8")
        archive = shutil.make_archive(str(package), "zip", partial, name)
        shutil.rmtree(package)
        Path(archive).rename(partial / f"{name}.argosmodel")
    return export_dir / f"{name}.argosmodel"
