"""Makes, on a CPU, all that a GPU day needs, and cuts it into pieces: see docs/gpu_day.md.

    PYTHON=.venv/bin/python bash scripts/gpu_day.sh prepare --tfds=DIR --multi30k=DIR --out=gpu_day

Writes kit/1 and so on (exported programs, prepared data, a CPU's losses), and tensorflow/1 and so
on (`make_pieces.py`). What is there is not made again.
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import parts
import pieces
from parts import NEWS, SIZES, Sizes

CHECKOUT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Makes what is missing, and cuts it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu_day"))
    parser.add_argument("--sizes", choices=SIZES, default="full", help="tiny: to rehearse on a CPU")
    parser.add_argument("--multi30k", type=Path, required=True, help="with tok/ and raw/")
    parser.add_argument("--tfds", type=Path, required=True, help="with wmt14_translate/de-en")
    parser.add_argument("--without_tensorflow", action="store_true", help="the kit alone")
    parser.add_argument("--piece_mib", type=int, default=56)
    options = parser.parse_args()
    out, multi30k = options.out.resolve(), options.multi30k.resolve()
    kit, sizes = out / "made", SIZES[options.sizes]
    kit.mkdir(parents=True, exist_ok=True)
    (kit / "sizes.json").write_text(json.dumps(options.sizes), encoding="utf-8")
    texts(kit / "text", multi30k, options.tfds.resolve(), sizes.pairs)
    for data in parts.DATA:
        if not (kit / "data" / data / "prepared").is_dir():
            call("-m", "t2t_repro.datagen", *parts.data_options(sizes, kit, data))
    call("benchmarks/make_work.py", f"--multi30k={multi30k}", f"--work={kit / 'work'}")
    programs(kit, sizes)
    if not (kit / "losses.json").is_file():
        losses = f"--write={kit / 'losses.json'}"
        call("benchmarks/same_losses.py", losses, f"--size={sizes.model}")
    limit = options.piece_mib * pieces.MIB
    for number, size in enumerate(pieces.pack(kit, out / "kit", limit, level=6), 1):
        print(f"{out / 'kit' / str(number)}: {size / pieces.MIB:.1f} MiB", flush=True)
    if not options.without_tensorflow:
        tensorflow = ("--out", str(out / "tensorflow"))
        call("scripts/gpu/make_pieces.py", *tensorflow, f"--piece_mib={options.piece_mib}")


def texts(folder: Path, multi30k: Path, tfds: Path, pairs: int) -> None:
    """Copies Multi30k's files, and writes the news text of TensorFlow Datasets as plain files."""
    for kind in ("tok", "raw"):
        shutil.copytree(multi30k / kind, folder / "multi30k" / kind, dirs_exist_ok=True)
    if (folder / "wmt14").is_dir():
        return
    from t2t_repro.data.corpora.tfds_corpus import TfdsCorpus

    corpus = TfdsCorpus("wmt14_translate/de-en", "en", "de", data_dir=str(tfds))
    aside = folder / "wmt14.partial"
    aside.mkdir(exist_ok=True)
    for split in NEWS:
        with (
            gzip.open(aside / f"{split}.en.gz", "wt", encoding="utf-8", newline="\n") as english,
            gzip.open(aside / f"{split}.de.gz", "wt", encoding="utf-8", newline="\n") as german,
        ):
            for _, (source, target) in zip(range(pairs), corpus.read(split, folder), strict=False):
                english.write(f"{source}\n")
                german.write(f"{target}\n")
    aside.rename(folder / "wmt14")


def programs(kit: Path, sizes: Sizes) -> None:
    """Exports the train step, in all sizes, and small ones with what TensorFlow makes of them."""
    for name, options in parts.CHECKS.items():
        if not (kit / name / "check.npz").is_file():
            call("benchmarks/exported_check.py", f"--output={kit / name}", *options)
    for size in sizes.programs:
        for tokens in sizes.tokens:
            name = parts.program_name(size, tokens, sizes.length)
            if not (kit / "programs" / name / "description.json").is_file():
                shape = ("--lengths", str(sizes.length), f"--tokens={tokens}")
                out = f"--output={kit / 'programs'}"
                call("benchmarks/exported_step.py", out, f"--sizes={size}", *shape)


def call(*arguments: str) -> None:
    """Runs a script, or a module, of this checkout."""
    print(f"== {' '.join(arguments[:2])}", flush=True)
    settings = {**os.environ, "PYTHONPATH": str(CHECKOUT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run([sys.executable, *arguments], cwd=CHECKOUT, env=settings)
    if done.returncode:
        sys.exit(f"error: {' '.join(arguments[:2])} failed with exit status {done.returncode}")


if __name__ == "__main__":
    main()
