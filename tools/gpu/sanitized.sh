#!/usr/bin/env bash
# Runs a test program under a tool of compute-sanitizer, after the tool has found the fault planted for it.
# usage: sanitized.sh memcheck|racecheck|initcheck|synccheck PROGRAM [ARGUMENT ...]
# The planted kernels are those of test_device, beside PROGRAM on PATH. compute-sanitizer is looked for on PATH and in
# /usr/local/cuda/bin. Status: 0 no report, 1 a report or a test that failed, 77 there is no compute-sanitizer.
set -uo pipefail
tool=$1
shift
sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) ||
  { echo "sanitized.sh: no compute-sanitizer on PATH or in /usr/local/cuda/bin"; exit 77; }
under=("$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20)
planted=$("${under[@]}" test_device --gtest_filter="Planted.$tool" 2>&1)
status=$?
if ((status != 9)) || ! grep -q 'ERROR SUMMARY: [1-9]\|RACECHECK SUMMARY: [1-9]' <<<"$planted"; then
  echo "$planted"
  echo "sanitized.sh: $tool does not report the fault that is planted for it (status $status)"
  exit 1
fi
"${under[@]}" "$@"
status=$?
((status == 0)) || { echo "sanitized.sh: $tool reports faults, or a test failed (status $status)"; exit 1; }
