#!/usr/bin/env bash
# Takes the bars of bars.py on another machine, from a checkout, the bundle of ./dev pack and the archive of tools/pack/bars.sh:
# the models are made there, MiniLM with seeded weights. A python3 ($PYTHON) needs numpy, onnx and ml_dtypes.
# usage: bars_there.sh BUNDLE.tar.xz BARS.tar.xz WORK [--models "NAME..."] [words of bars.py]    WORK: a folder for some 30 GB
# Unless the words say otherwise: a lane for four processors, 12 at most; every bar but `tests`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bundle=$(realpath "$1") bars=$(realpath "$2")
mkdir -p "$3"
work=$(cd "$3" && pwd)
shift 3
names="bert_base bert_large deeplabv3_resnet50 digits_cnn digits_transformer efficientnet_b0 gpt2 mobilenet_v3_large resnet50 unet vit_b_16"
if [[ ${1:-} == --models ]]; then
  names=$2
  shift 2
fi
python=${PYTHON:-python3}
for archive in "$bundle" "$bars"; do
  tar -C "$work" -xf "$archive" 2>/dev/null || "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$archive" "$work"
done
here=$work/$(basename "$bundle" .tar.xz)
"$here/bin/peri" doctor 2>/dev/null | grep -E '^(peri|CPU|cache|memory|ceiling)' || true

jobs=()
for name in $names; do
  "$python" models/materialize.py --out "$work/models" "$name" >/dev/null &
  jobs+=($!)
done
rm -rf "$work/minilm"
"$python" benchmarks/whole/seeded_folder.py fill "$work/bars/minilm" "$work/minilm"
for job in "${jobs[@]}"; do
  wait "$job"
done

lanes=$(($(nproc) / 4)) # both processors of a core are one lane's, or one of them idles
lanes=$((lanes < 1 ? 1 : lanes < 12 ? lanes : 12))
set -- --only build,times,start,bits,shapes,narrow --lanes $lanes "$@"
models=()
for name in $names; do
  models+=("$work/models/$name.onnx")
done
TMPDIR=$work exec "$python" benchmarks/whole/bars.py --old "$work/bars/old/peri" --peri "$here/bin/peri" --bin "$work/bars/bin" \
  --minilm "$work/minilm" "$@" "${models[@]}"
