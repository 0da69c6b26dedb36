#!/usr/bin/env bash
# Runs one fuzzer of build-fuzz for a time, from the committed corpus and what earlier runs found.
# usage: run.sh NAME SECONDS [SEED]; status 77 when the fuzzer was not built (./dev fuzz builds it).
# With a seed nothing of earlier runs is read or kept: on one commit the same inputs are tried in the same order, as many as the time allows.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
name=$1 seconds=$2 seed=${3:-}
program=build-fuzz/bin/fuzz_$name
[[ -x $program ]] || { echo "$program is not built: ./dev fuzz $name"; exit 77; }
found=build-fuzz/corpus/$name
[[ -z $seed ]] || found=build-fuzz/seeded/$name
[[ -z $seed ]] || rm -rf "$found"
mkdir -p "$found" "build-fuzz/findings/$name"
arguments=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1
  -print_pcs=0 -print_funcs=0 -verbosity=0 -error_exitcode=1 -use_value_profile=1 -artifact_prefix="build-fuzz/findings/$name/")
[[ -f tests/fuzz/$name.dict ]] && arguments+=(-dict="tests/fuzz/$name.dict")
[[ -z $seed ]] || arguments+=(-seed="$seed")
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export ASAN_SYMBOLIZER_PATH=${ASAN_SYMBOLIZER_PATH:-$(command -v llvm-symbolizer-19 || true)}
"$program" "${arguments[@]}" "$found" "tests/fuzz/corpus/$name"
