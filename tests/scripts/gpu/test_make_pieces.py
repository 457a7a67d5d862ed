"""What the package needs travels, in the versions that are here."""

import importlib.metadata
import zipfile

import make_pieces


def test_all_that_the_package_requires_is_carried_but_what_is_left_out():
    found = dict(one.split("==") for one in make_pieces.pinned("3.12"))
    assert {"tensorflow", "gin-config", "sacrebleu", "sentencepiece"} <= set(found)
    assert "portalocker" in found  # that sacrebleu requires
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert not make_pieces.LEFT_OUT & set(found)
    # Of the extras nothing.
    assert "pytest" not in found


def test_of_a_wheel_only_what_runs_is_unpacked(tmp_path):
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        program = zipfile.ZipInfo("nvidia/cuda_nvcc/bin/ptxas")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, "")
        for name in (
            "nvidia/cuda_nvcc/bin/nvcc",
            "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
            "nvidia/cuda_runtime/include/cuda.h",
            "nvidia/cuda_runtime/lib/libcudart.so.12",
            "tensorflow/include/tsl/a.h",
            "tensorflow/__init__.py",
        ):
            archive.writestr(name, "")
    make_pieces.unpack(wheel, tmp_path / "site")
    found = {
        str(path.relative_to(tmp_path / "site")): path.stat().st_mode & 0o777
        for path in (tmp_path / "site").rglob("*")
        if path.is_file()
    }
    assert found == {
        "nvidia/cuda_nvcc/bin/ptxas": 0o755,
        "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc": 0o644,
        "nvidia/cuda_runtime/lib/libcudart.so.12": 0o644,
        "tensorflow/__init__.py": 0o644,
    }
