#!/usr/bin/env bash
# Lays out the relocatable bundle of a build. It takes the C and C++ run-time libraries of its machine: ours ask for a newer C
# library than many have; symbols.py checks that it asks for no newer version than Ubuntu 22.04 has.
# usage: bundle.sh BUILD_DIR SOURCE_DIR OUT_DIR
set -euo pipefail
build=$1 source=$2 out=$3
rm -rf "$out"
cmake --install "$build" --prefix "$out" --strip
for library in "$out"/lib/*.so.*; do
  [[ ! -L $library ]] || continue
  chmod u+w "$library"
  strip -s "$library"
  # A RUNPATH is not inherited: each library that needs one beside it says so itself.
  patchelf --set-rpath '$ORIGIN' "$library"
done
"$source/.venv/bin/python" "$source/tools/pack/licenses.py" "$source/.venv" "$out/LICENSES"
cp "$source/LICENSE" "$source/VERSION" "$out/"

python3 "$source/tools/pack/symbols.py" "$out"
for file in "$out"/bin/* "$out"/lib/*.so*; do
  if env -i ldd "$file" | grep -F 'not found'; then
    echo "$file does not find these"
    exit 1
  fi
done
