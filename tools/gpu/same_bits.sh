#!/usr/bin/env bash
# Whether an engine in float16 gives the same bits in 1,000 runs and, alone in a second process, in the first of them again.
# usage: same_bits.sh NAME ...      with $MODELS, $WORK and $PYTHON as run.sh sets them; BACKEND (cuda) and FLAGS (--dtype f16
# --no-tune) of the builds; status 77 without numpy and onnx
set -euo pipefail
"$PYTHON" -c 'import numpy, onnx' 2>/dev/null || { echo "$PYTHON has no numpy and onnx"; exit 77; }
for name in "$@"; do
  "$PYTHON" "$MODELS/materialize.py" --out "$WORK/models" "$name" >/dev/null
  # shellcheck disable=SC2086
  peri build "$WORK/models/$name.onnx" --backend "${BACKEND:-cuda}" ${FLAGS:---dtype f16 --no-tune} -o "$WORK/$name.engine" --quiet
  engine_runs "$WORK/$name.engine" --runs "${RUNS:-1000}"
  given=$("$PYTHON" -c 'import onnx, sys
graph = onnx.load(sys.argv[1], load_external_data=False).graph
print(*(f"--input {i.name}=random:1" for i in graph.input if i.name not in {t.name for t in graph.initializer}))' "$WORK/models/$name.onnx")
  for run in 1 2; do
    mkdir -p "$WORK/bits$run"
    # shellcheck disable=SC2086
    peri run "$WORK/$name.engine" $given --output-dir "$WORK/bits$run" --quiet
  done
  diff -r "$WORK/bits1" "$WORK/bits2"
  rm -rf "$WORK"/bits? "$WORK/$name.engine"* "$WORK/models/$name"*
done
