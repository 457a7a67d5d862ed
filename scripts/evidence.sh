#!/usr/bin/env bash
# The figures on quality in EXPERIMENTS.md, from nothing. Interrupted, the same command goes on.
#
#   bash scripts/evidence.sh multi30k     5 hours of one core   Multi30k en→de, three seeds
#   bash scripts/evidence.sh news         9 a seed (--seed)     three toolkits on the same news text
#   bash scripts/evidence.sh table_3     11 (two at a time)     Table 3 in small, 20 rows of three seeds
#   bash scripts/evidence.sh parsing      2                     constituency parsing on CRAFT's trees
#
# Further arguments go to the part's own script.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
part="${1:-}"
if [ $# -gt 0 ]; then shift; fi
case "$part" in
    multi30k)
        bash scripts/reproduce_multi30k.sh "$@"
        .venv/bin/python paper/report.py --table=scores --runs=runs/multi30k_tiny
        ;;
    news)
        source scripts/environment.sh base
        python benchmarks/equal_budget.py --run_dir=runs/news "$@"
        ;;
    table_3) bash scripts/reproduce_table3.sh --scale "$@" ;;
    parsing) bash scripts/reproduce_parsing_craft.sh "$@" ;;
    *)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"
        if [ -n "$part" ]; then echo "error: received '$part', expected one of these parts." >&2; exit 2; fi
        ;;
esac
