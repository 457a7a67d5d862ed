"""The mean of fairseq's last checkpoints, by epoch or by update; run by fairseq's own Python.

python fairseq_average.py <folder> <how many> <file to write>
"""

import re
import sys
from pathlib import Path

import torch


def main() -> None:
    """Averages; what is no weight is taken from the last."""
    folder, count, to = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    # checkpoint<epoch>.pt, or checkpoint_<epoch>_<update>.pt
    named = [(re.fullmatch(r"checkpoint(?:_\d+_)?(\d+)\.pt", p.name), p) for p in folder.iterdir()]
    found = {int(match[1]): path for match, path in named if match}
    paths = [found[number] for number in sorted(found)[-count:]]
    if len(paths) < count:
        sys.exit(f"error: {folder} has {len(paths)} numbered checkpoints, expected {count}")
    means: dict[str, torch.Tensor] = {}
    for path in paths:
        checkpoint = torch.load(path, map_location="cpu")
        for name, weight in checkpoint["model"].items():
            means[name] = means.get(name, 0) + weight.double() / count
    weights = checkpoint["model"]
    checkpoint["model"] = {name: mean.to(weights[name].dtype) for name, mean in means.items()}
    checkpoint["last_optimizer_state"] = None
    torch.save(checkpoint, to)
    print("averaged", *(path.name for path in paths))


if __name__ == "__main__":
    main()
