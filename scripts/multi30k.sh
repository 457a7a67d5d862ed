#!/usr/bin/env bash
# Puts Multi30k (Elliott et al., 2016), English and German, into runs/multi30k: raw text, and text that
# its authors lower-cased and tokenised. Running it again fetches what is missing.
# Usage: bash scripts/multi30k.sh [DIR]     DIR: a copy of data/task1 of github.com/multi30k/dataset
set -euo pipefail
from="${1:-https://raw.githubusercontent.com/multi30k/dataset/master/data/task1}"
if [ -d "$from" ]; then from="file://$(realpath "$from")"; fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for split in train val test_2016_flickr test_2017_flickr; do
    for name in {raw/$split,tok/$split.lc.norm.tok}.{en,de}; do
        file="runs/multi30k/$name.gz"
        if [ -s "$file" ]; then continue; fi
        mkdir -p "${file%/*}"
        # The repository compresses the raw text alone.
        curl --fail --silent --location --retry 3 "$from/$name.gz" --output "$file.partial" ||
            curl --fail --silent --show-error --location --retry 3 "$from/$name" | gzip -n > "$file.partial"
        mv "$file.partial" "$file"
    done
done
