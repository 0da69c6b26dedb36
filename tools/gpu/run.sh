#!/usr/bin/env bash
# Runs the tests of an archive of ./dev pack on a machine with an NVIDIA GPU, of any distribution.
# usage: run.sh ARCHIVE|FOLDER [SHARD]      no SHARD: all of them; --list: their names
# Beside NAME-tests.tar.xz lies the bundle of the same ./dev pack, NAME.tar.xz or its folder; beside the folder the folder.
# Needs bash, coreutils, tar with xz (else a python3), the driver, the CUDA libraries; shards of models a python3 with numpy
# and onnx ($PYTHON). Nothing is fetched, built or installed; what it unpacks and writes goes when it ends.
# Status: 0 all passed, 1 a test failed, 2 the call is wrong, 77 no GPU: what needs none was run, and passed.
set -uo pipefail

usage() {
  sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  "") usage >&2; exit 2 ;;
esac
archive=$1 wanted=${2:-}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

unpack() {
  tar -C "$work/archive" -xf "$1" 2>"$work/unpack" ||
    "${PYTHON:-python3}" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1" "$work/archive" 2>>"$work/unpack" ||
    { echo "run.sh: $1 cannot be unpacked: $(tail -1 "$work/unpack")" >&2; exit 2; }
}
if [[ -d $archive ]]; then
  root=$(cd "$archive" && pwd)
elif [[ -f $archive ]]; then
  mkdir "$work/archive"
  unpack "$archive"
  root=$(echo "$work"/archive/*)
else
  echo "run.sh: no archive or folder $archive" >&2
  exit 2
fi
[[ -f $root/shards ]] || { echo "run.sh: $archive holds no tests: ./dev pack makes NAME-tests.tar.xz" >&2; exit 2; }
# Where the program and the libraries are; tests without a file `bundle` hold them.
bundle=$root
if [[ -f $root/bundle ]]; then
  bundle=${root%/*}/$(<"$root/bundle")
  beside=$(dirname "$archive")/$(<"$root/bundle")
  if [[ -f $archive && -f $beside.tar.xz ]]; then
    unpack "$beside.tar.xz"
  elif [[ -f $archive && -d $beside ]]; then
    ln -s "$(cd "$beside" && pwd)" "$bundle"
  fi
  [[ -x $bundle/bin/peri ]] ||
    { echo "run.sh: no bundle $beside.tar.xz, or folder $beside, beside the tests: ./dev pack makes it with them" >&2; exit 2; }
  cmp -s "$root/VERSION" "$bundle/VERSION" ||
    { echo "run.sh: $beside is of version $(cat "$bundle/VERSION"), the tests are of $(cat "$root/VERSION")" >&2; exit 2; }
  export PERI_WORKER=$bundle/bin/peri  # not beside the test programs, where they would look for it
fi
shards=$(awk '!/^#/ && NF {print $1}' "$root/shards" | uniq)
if [[ $wanted == --list ]]; then
  echo "$shards"
  exit 0
fi
if [[ -n $wanted ]] && ! grep -qxF -- "$wanted" <<<"$shards"; then
  echo "run.sh: no shard '$wanted'; shards are" $shards >&2
  exit 2
fi

export PATH=$root/bin:$bundle/bin:$PATH PERI_CACHE=$work/cache MODELS=$root/models SUITES=$root/suites WORK=$work BIN=$root/bin PYTHON=${PYTHON:-python3}
failed=0 passed=0

# test NAME SECONDS COMMAND: one line, and the end of its output where it fails. Exit code 77: it could not be run.
run_test() {
  local name=$1 seconds=$2 start status=0
  start=$(date +%s)
  timeout --kill-after=5 "$seconds" bash -c "$3" >"$work/log" 2>&1 || status=$?
  local took=$(($(date +%s) - start))
  case $status in
    0) passed=$((passed + 1)); echo "passed   $name  ${took} s" ;;
    77) echo "left out $name: $(tail -1 "$work/log")" ;;
    124 | 137) failed=$((failed + 1)); echo "FAILED   $name: not done after $seconds s"; tail -n 15 "$work/log" ;;
    *) failed=$((failed + 1)); echo "FAILED   $name: status $status"; tail -n 25 "$work/log" ;;
  esac
}

# Each line of `shards`: SHARD NEEDS SECONDS NAME COMMAND...; NEEDS is gpu or host.
run_needing() {
  local shard needs seconds name command
  while read -r shard needs seconds name command; do
    [[ $needs == "$1" ]] || continue
    [[ -z $wanted || $shard == "$wanted" || $needs == host ]] || continue
    run_test "$shard/$name" "$seconds" "$command"
  done < <(grep -v '^#' "$root/shards" | grep .)
}

echo "$(peri --version 2>&1 | head -1), $(uname -srm)"
run_needing host
peri doctor >"$work/doctor" 2>&1
grep -E '^ *(NVIDIA|GPU)' "$work/doctor"
if ! grep -qE '^ *GPU +cuda:0' "$work/doctor"; then
  echo "no GPU: tests that need one are left out"
  ((failed == 0)) || exit 1
  exit 77
fi
run_needing gpu
echo "$passed passed, $failed failed, $SECONDS s"
((failed == 0))
