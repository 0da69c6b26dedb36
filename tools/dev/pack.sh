# Make the relocatable bundle build/pack/peri-VERSION-linux-x86_64.tar.xz, the Python wheel, and the tests for machines with a GPU.
# usage: ./dev pack [--python PYTHON]      PYTHON: a CPython of 3.12 or newer with its headers; a second wheel, for it and later ones
# The bundle: program, libperi.so and libperi.a, headers, licences; perihelion-VERSION-....whl: for pip; ...-tests.tar.xz: what
# tools/gpu/run.sh runs on another machine, with the bundle beside it. They run on any x86-64 Linux with AVX2 and libraries at least as new as those of
# Ubuntu 22.04, which is checked; the archives together take at most 40 MiB.

pack_python=
if [[ ${1:-} == --python ]]; then
  [[ -n ${2:-} ]] || die "pack: --python needs a program"
  pack_python=$(command -v "$2") || die "there is no program '$2'"
  pack_lacks=$("$pack_python" tools/pack/stable.py) || die "pack: ${pack_lacks:-'$2' is no Python that runs}"
  shift 2
fi
(($# == 0)) || die "pack: unknown argument '$1'"
call setup
call build
[[ -z $pack_python ]] || step "configure for $pack_python" cmake -S . -B build -DPERI_STABLE_PYTHON="$pack_python"
[[ -z $pack_python ]] || step "package for $pack_python" cmake --build build --target peri_package_stable
pack_name=peri-$(cat VERSION)-linux-x86_64
mkdir -p build/pack
step "bundle" tools/pack/bundle.sh build . "build/pack/$pack_name"
rm -f build/pack/perihelion-*.whl
step "wheel" .venv/bin/python tools/pack/wheel.py "build/pack/$pack_name" build/python/peri . build/pack
[[ -z $pack_python ]] || step "wheel for $pack_python" .venv/bin/python tools/pack/wheel.py "build/pack/$pack_name" \
  build/python-stable/peri . build/pack
step "tests" tools/pack/tests.sh "build/pack/$pack_name" build . "build/pack/$pack_name-tests"
# A dictionary as large as the programs: what they are linked from is the same.
pack_archive() {
  tar -C build/pack --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
    -cf "build/pack/$1.tar.xz" -I 'xz -T1 --x86 --lzma2=preset=6,dict=128MiB' "$1"
}
pack_archives() {
  pack_archive "$pack_name" &
  local first=$!
  pack_archive "$pack_name-tests" && wait "$first"
}
step "archives" pack_archives
ls -l "build/pack/$pack_name.tar.xz" "build/pack/$pack_name-tests.tar.xz" build/pack/perihelion-*.whl
pack_bytes=$(cat "build/pack/$pack_name.tar.xz" "build/pack/$pack_name-tests.tar.xz" | wc -c)
((pack_bytes <= 40 << 20)) || die "the archives take $pack_bytes bytes together, at most $((40 << 20)) are allowed"
# Up to where a GPU is needed: the tests' programs start with what the bundle beside them holds.
pack_tests_run() {
  local status=0
  tools/gpu/run.sh "build/pack/$pack_name-tests.tar.xz" start || status=$?
  ((status == 0 || status == 77))
}
step "the tests beside the bundle" pack_tests_run
