#!/usr/bin/env bash
# Makes the wheel of this build, holds it against its tag, installs it without a network into an empty environment that has
# NumPy, and does there what docs/python.md shows.
# usage: wheel.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
build=$1 source=$2
python=$source/.venv/bin/python
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$source/tools/pack/bundle.sh" "$build" "$source" "$scratch/bundle" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
"$python" "$source/tools/pack/wheel.py" "$scratch/bundle" "$build/python/peri" "$source" "$scratch" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
wheel=$(echo "$scratch"/perihelion-*-manylinux_2_35_x86_64.whl)
"$python" -m auditwheel show "$wheel" >"$scratch/audit"
grep -q '"manylinux_2_3[0-5]_x86_64"' "$scratch/audit" || { cat "$scratch/audit"; exit 1; }

"$python" -m venv --without-pip "$scratch/env"
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mine=$("$scratch/env/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
ln -s "$packages"/numpy "$packages"/numpy.libs "$packages"/numpy-*.dist-info "$mine/"
"$python" -m pip --python "$scratch/env/bin/python" install --quiet --no-index --disable-pip-version-check --no-compile "$wheel"
rm -rf "$scratch/bundle"

[[ $(env -i "$scratch/env/bin/peri" --version) == *$(cat "$source/VERSION")* ]] || { echo "no command line"; exit 1; }
for stub in py.typed _native.pyi; do
  [[ -f $mine/peri/$stub ]] || { echo "$stub is missing"; exit 1; }
done
# The worker beside the library is found: candidates are judged in a process of their own.
(cd "$scratch" && PERI_CACHE='' env/bin/python -B -c "
import peri
proof = peri.build('$source/models/digits_cnn.onnx', threads=1, provider='peri').proof()
assert proof.verification.worker, proof.verification")
"$python" "$source/tools/docs/run.py" --build "$build" --python "$scratch/env/bin/python" "$source/docs/python.md"
echo "made, installed without a network, and run: $(basename "$wheel"), $(stat -c %s "$wheel") bytes"
