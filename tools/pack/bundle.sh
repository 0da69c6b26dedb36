#!/usr/bin/env bash
# Lays out the relocatable bundle of a build and checks that it needs nothing but the C library of its machine.
# usage: bundle.sh BUILD_DIR SOURCE_DIR OUT_DIR
set -euo pipefail
build=$1 source=$2 out=$3
rm -rf "$out"
cmake --install "$build" --prefix "$out" --strip
for name in libstdc++.so.6 libgcc_s.so.1; do
  cp -L "$(realpath "$("${CXX:-c++}" -print-file-name=$name)")" "$out/lib/$name"
done
for library in "$out"/lib/*.so*; do
  chmod u+w "$library"
  strip -s "$library"
  # A RUNPATH is not inherited: each library that needs one beside it says so itself.
  patchelf --set-rpath '$ORIGIN' "$library"
done
"$source/.venv/bin/python" "$source/tools/pack/licenses.py" "$source/.venv" "$out/LICENSES"
cp "$source/LICENSE" "$source/VERSION" "$out/"

allowed='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|libpthread|librt)\.so'
for file in "$out"/bin/* "$out"/lib/*.so*; do
  while read -r name path; do
    [[ $name =~ $allowed || $path == "$(realpath "$out")"/* ]] || { echo "$file needs $name from $path"; exit 1; }
  done < <(env -i ldd "$file" | awk '/=>/ {print $1, $3} !/=>/ {n = $1; sub(".*/", "", n); print n, $1}')
done
