#!/usr/bin/env bash
# Installs this build into a scratch prefix, moves it, and builds and runs another project against it.
# usage: run.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1 source=$2
version=$(cat "$source/VERSION")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$build" --prefix "$scratch/first" --strip >"$scratch/log"
mv "$scratch/first" "$scratch/prefix"
cmake -S "$source/tests/package" -B "$scratch/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DPERI_WANTED_VERSION="$version" -DPERI_EXAMPLES="$source/examples" >>"$scratch/log" || { cat "$scratch/log"; exit 1; }
ninja -C "$scratch/consumer" >>"$scratch/log" || { cat "$scratch/log"; exit 1; }
for program in from_c from_cpp with_plugin with_shared; do
  said=$("$scratch/consumer/$program")
  [[ $said == "$version" ]] || { echo "$program says '$said', not '$version'"; exit 1; }
done
# The examples: an engine is built, saved, and loaded by the other one.
said=$("$scratch/consumer/classify" "$source/models/digits_cnn.onnx" "$scratch/digits.engine")
[[ $said =~ ^class\ [0-9]\ of\ 10, ]] || { echo "classify says '$said'"; exit 1; }
said=$("$scratch/consumer/run_engine" "$scratch/digits.engine")
[[ $said =~ f32\[1,10\]\ -?[0-9] ]] || { echo "run_engine says '$said'"; exit 1; }
said=$("$scratch/consumer/share_arrays" "$scratch/digits.engine" | tr '\n' ' ')
[[ $said =~ ^loaded\ .*batch=2.*[1-9][0-9]*\ bytes\ in\ use\ answer\ of\ 2\ dimensions.*\ 0\ bytes\ in\ use ]] || { echo "share_arrays says '$said'"; exit 1; }
said=$("$scratch/consumer/prove_engine" "$source/models/digits_cnn.onnx" "$scratch/proof.json" | tr '\n' ' ')
[[ $said =~ right\ at\ [1-9].*\"passed\":true ]] || { echo "prove_engine says '$said'"; exit 1; }
grep -q '"verified": true' "$scratch/proof.json" || { echo "prove_engine writes no proof"; exit 1; }
for words in "classify $source/models/digits_cnn.onnx $scratch/full.engine" "run_engine $scratch/digits.engine" "share_arrays $scratch/digits.engine" \
  "prove_engine $source/models/digits_cnn.onnx $scratch/full.json"; do
  # shellcheck disable=SC2086  # a program and its arguments
  if "$scratch/consumer/"$words >/dev/full 2>/dev/null; then
    echo "$words: ends well though its answer was not written"
    exit 1
  fi
done
cp "$source/models/digits_cnn.onnx" "$scratch/mine.onnx"
ln -s mine.onnx "$scratch/link.onnx"
for name in mine.onnx ./mine.onnx link.onnx; do
  if "$scratch/consumer/prove_engine" "$scratch/mine.onnx" "$scratch/$name" >/dev/null 2>&1; then
    echo "prove_engine writes over its model, named $name"
    exit 1
  fi
done
cmp "$source/models/digits_cnn.onnx" "$scratch/mine.onnx" || exit 1
[[ -s $scratch/digits.engine.proof ]] || { echo "classify left no proof beside the engine"; exit 1; }
# A project in C alone: its compiler, the shared library by pkg-config.
flags=$(PKG_CONFIG_PATH="$scratch/prefix/lib/pkgconfig" pkg-config --cflags --libs peri)
for program in from_c run_engine share_arrays prove_engine; do
  file=$source/tests/package/$program.c
  [[ -f $file ]] || file=$source/examples/$program.c
  # shellcheck disable=SC2086  # flags are words
  cc -std=c99 -pedantic -Wall -Wextra -Werror "$file" $flags -o "$scratch/c99_$program"
done
# The archive, by its own name.
# shellcheck disable=SC2046  # flags are words
cc -std=c99 "$source/tests/package/from_c.c" $(PKG_CONFIG_PATH="$scratch/prefix/lib/pkgconfig" pkg-config --cflags --libs peri-static) \
  -o "$scratch/static_from_c"
[[ $("$scratch/static_from_c") == "$version" ]] || { echo "the C program with libperi.a says another version"; exit 1; }
if ldd "$scratch/static_from_c" | grep -F 'libperi.so'; then
  echo "peri-static links the shared library"
  exit 1
fi
# Both where the prefix has a space.
ln -s prefix "$scratch/a prefix"
for name in peri peri-static; do
  eval "cc -std=c99 '$source/tests/package/from_c.c' $(PKG_CONFIG_PATH="$scratch/a prefix/lib/pkgconfig" pkg-config --cflags --libs $name) -o '$scratch/spaced_$name'"
  [[ $("$scratch/spaced_$name") == "$version" ]] || { echo "$name in a prefix with a space says another version"; exit 1; }
done
[[ $("$scratch/c99_from_c") == "$version" ]] || { echo "the C program says another version"; exit 1; }
[[ $("$scratch/c99_run_engine" "$scratch/digits.engine") == "$("$scratch/consumer/run_engine" "$scratch/digits.engine")" ]] ||
  { echo "libperi.so and libperi.a give different answers"; exit 1; }
# What C#, Rust and Go would do: the library's names alone.
"$source/.venv/bin/python" "$source/tests/package/from_ctypes.py" "$scratch/prefix" "$source"
if said=$("$scratch/consumer/run_engine" "$source/models/digits_cnn.onnx" 2>&1); then
  echo "run_engine runs a file that is no engine: '$said'"
  exit 1
fi
peri=$scratch/prefix/bin/peri
env -i "$peri" --version | grep -F "$version"
# An engine of texts, which the example gives empty ones.
"$source/.venv/bin/python" -c 'import sys, onnx, onnx.parser as p
onnx.save(p.parse_model("<ir_version: 9, opset_import: [\"\": 17]> g (string[n] x) => (string[n] y) { y = Identity(x) }"), sys.argv[1])' "$scratch/texts.onnx"
"$peri" build "$scratch/texts.onnx" -o "$scratch/texts.engine" --no-tune --quiet 2>>"$scratch/log"
said=$("$scratch/consumer/run_engine" "$scratch/texts.engine")
[[ $said == "y string[1]" ]] || { echo "run_engine says '$said' of texts"; exit 1; }
# oneDNN is opened by an engine that needs it; without the library others run, and that one says what is wrong.
for provider in peri onednn; do
  "$peri" build "$source/models/digits_cnn.onnx" -o "$scratch/$provider.engine" --provider $provider --no-tune --quiet 2>>"$scratch/log"
done
opened() { { LD_DEBUG=files "$peri" run "$1" -i image=random:7 --quiet 2>&1 || true; } | grep -c 'calling init: .*libdnnl' || true; }
[[ $(opened "$scratch/peri.engine") == 0 ]] || { echo "an engine without a kernel of oneDNN opens it"; exit 1; }
[[ $(opened "$scratch/onednn.engine") == 1 ]] || { echo "an engine with kernels of oneDNN does not open it"; exit 1; }
rm "$scratch"/prefix/lib/libdnnl.so*
env -i "$peri" run "$scratch/peri.engine" -i image=random:7 --quiet 2>>"$scratch/log" >>"$scratch/log"
if said=$(env -i "$peri" run "$scratch/onednn.engine" -i image=random:7 --quiet 2>&1); then
  echo "an engine runs without the library it needs: '$said'"
  exit 1
fi
[[ $said == *libdnnl.so*"the loader refuses it"*"beside it again"* ]] || { echo "a library is missing, and peri says '$said'"; exit 1; }
if grep -rlF -- "$source" "$scratch/prefix"; then
  echo "the files above name the folder they were built in"
  exit 1
fi
echo "installed, found, linked and run: $version"
