#!/usr/bin/env bash
# A model of the archive, complete, built for the GPU and judged there; then its answer is held against the CPU's.
# usage: gpu_model.sh NAME      with $MODELS, $WORK and $PYTHON as run.sh sets them; BACKEND (cuda); status 77 without numpy and onnx
set -euo pipefail
name=$1
"$PYTHON" -c 'import numpy, onnx' 2>/dev/null || { echo "$PYTHON has no numpy and onnx"; exit 77; }
"$PYTHON" "$MODELS/materialize.py" --out "$WORK/models" "$name" >/dev/null
model=$WORK/models/$name.onnx
peri build "$model" --backend "${BACKEND:-cuda}" -o "$WORK/$name.engine" --quiet
peri build "$model" --backend cpu --no-tune --no-verify -o "$WORK/$name.cpu.engine" --quiet
given=$("$PYTHON" -c 'import onnx, sys
graph = onnx.load(sys.argv[1], load_external_data=False).graph
print(*(f"--input {i.name}=random:1" for i in graph.input if i.name not in {t.name for t in graph.initializer}))' "$model")
for side in "" .cpu; do
  mkdir -p "$WORK/$name$side.out"
  # shellcheck disable=SC2086
  peri run "$WORK/$name$side.engine" $given --output-dir "$WORK/$name$side.out" --quiet
done
"$PYTHON" - "$WORK/$name.out" "$WORK/$name.cpu.out" <<'END'
import pathlib, sys
import numpy as np

for wanted in sorted(pathlib.Path(sys.argv[2]).glob("*.npy")):
    a, b = np.load(pathlib.Path(sys.argv[1]) / wanted.name).astype(np.float64), np.load(wanted).astype(np.float64)
    spread = np.abs(b).max() or 1
    error = np.abs(a - b).max() / spread
    print(f"{wanted.stem}: {error:.2e} of the range")
    if not error <= 1e-3:
        sys.exit(f"{wanted.stem} differs from the CPU's answer by {error:.2e} of its range")
END
rm -rf "$WORK/$name"* "$WORK/models/$name"*
