#!/usr/bin/env bash
# Lays out the tests for machines with a GPU: test programs, stripped graphs, the node suite, and what tools/gpu/run.sh reads.
# The program peri and the libraries are those of the bundle, which lies beside them.
# usage: tests.sh BUNDLE BUILD_DIR SOURCE_DIR OUT_DIR      BUNDLE: what bundle.sh made of the same build
set -euo pipefail
bundle=$1 build=$2 source=$3 out=$4
rm -rf "$out"
mkdir -p "$out"/{bin,models,suites,examples}
basename "$bundle" >"$out/bundle"
for program in test_device test_tune test_whole; do
  cp "$build/bin/$program" "$out/bin/"
  strip "$out/bin/$program"
  patchelf --set-rpath "\$ORIGIN/../../$(basename "$bundle")/lib" "$out/bin/$program"
done
ln -s test_whole "$out/bin/engine_runs"
cp "$source"/tools/gpu/{answers.py,times.py,sanitized.sh} "$out/bin/"
cp "$source/tools/gpu/run.sh" "$source/tools/gpu/shards" "$out/"
cp "$source"/models/{*.onnx,digits_data.npz,materialize.py,README.md} "$out/models/"
cp -r "$source/examples/triton" "$out/examples/"
[[ ! -d $build/suites/node ]] || cp -r "$build/suites/node" "$out/suites/"
cp -r "$bundle/LICENSES" "$out/"
cp "$source/LICENSE" "$source/VERSION" "$out/"
{
  echo "# Parts of these tests beside those of README.md"
  echo
  echo "- GoogleTest (linked into the test programs), BSD-3-Clause: googletest.txt"
  echo "- the node tests of ONNX in suites/node, Apache-2.0: onnx.txt"
  echo "- graphs in models/: of this project, Apache-2.0, see models/README.md; no weights but those of the digits models"
  echo "- the kernel in examples/triton: of this project, Apache-2.0"
} >"$out/LICENSES/TESTS.md"
cp /usr/share/doc/libgtest-dev/copyright "$out/LICENSES/googletest.txt"
licence=$(find "$source"/.venv/lib/python3*/site-packages/onnx-*.dist-info -name 'LICENSE*' | head -1)
cp "$licence" "$out/LICENSES/onnx.txt"
# No library of NVIDIA's travels with them: the driver and what the machine has are opened at run time.
if [[ -n $(find "$out" -name 'libcu*' -o -name 'libnv*') ]]; then
  echo "a library of NVIDIA's is among the tests" >&2
  exit 1
fi
