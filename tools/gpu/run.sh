#!/usr/bin/env bash
# Runs the tests of an archive of ./dev pack on a machine with an NVIDIA GPU, of any distribution.
# usage: run.sh ARCHIVE|FOLDER [--within SECONDS] [--keep FOLDER] [SHARD | SHARD/TEST ...]
# No SHARD: all but those that run only where they are named; --list: their names. --within: no test is begun that usually
# takes longer than what is left of that time, one that is not done then is ended. --keep: reports, and which tests passed:
# with the same FOLDER the next call runs the others.
# Beside NAME-tests.tar.xz lies the bundle of the same ./dev pack, NAME.tar.xz or its folder; beside the folder the folder.
# Needs bash, coreutils, tar with xz (else a python3), the driver, the CUDA libraries; shards of models a python3 with numpy
# and onnx ($PYTHON). Nothing is fetched, built or installed; what it unpacks and writes goes when it ends.
# Status: 0 all passed, 1 a test failed, 2 the call is wrong, 75 the time was over before all ran, 77 no GPU: what needs
# none was run, and passed.
set -uo pipefail

usage() {
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  "") usage >&2; exit 2 ;;
esac
archive=$1 within="" keep="" list=""
shift
wanted=()
while (($#)); do
  case $1 in
    --list) list=1 ;;
    --within | --keep)
      [[ -n ${2:-} ]] || { echo "run.sh: $1 wants a value" >&2; exit 2; }
      [[ $1 == --keep ]] && keep=$2 || within=$2
      shift
      ;;
    -*) echo "run.sh: no option $1" >&2; exit 2 ;;
    *) wanted+=("$1") ;;
  esac
  shift
done
[[ -z $within || $within =~ ^[0-9]+$ ]] || { echo "run.sh: --within wants seconds, not '$within'" >&2; exit 2; }
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
if [[ -n $list ]]; then
  echo "$shards"
  exit 0
fi
tests=$(awk '!/^#/ && NF {print $1; print $1 "/" $4}' "$root/shards")
for one in "${wanted[@]}"; do
  grep -qxF -- "$one" <<<"$tests" || { echo "run.sh: no shard or test '$one'; shards are" $shards >&2; exit 2; }
done
if [[ -n $keep ]]; then
  mkdir -p "$keep" && touch "$keep/passed" && keep=$(cd "$keep" && pwd) || { echo "run.sh: nothing can be kept in $keep" >&2; exit 2; }
fi

export PATH=$root/bin:$bundle/bin:$PATH PERI_CACHE=$work/cache MODELS=$root/models SUITES=$root/suites WORK=$work BIN=$root/bin PYTHON=${PYTHON:-python3}
# Where tests leave reports.
export KEEP=${keep:-$work}
failed=0 passed=0 over=0

# test NAME SECONDS USUAL COMMAND: one line, and the end of its output where it fails. Exit code 77: it could not be run.
run_test() {
  local name=$1 seconds=$2 usual=$3 start status=0 left=""
  if [[ -n $keep ]] && grep -qxF -- "$name" "$keep/passed"; then
    echo "passed   $name  in an earlier call"
    return
  fi
  if [[ -n $within ]]; then
    left=$((within - SECONDS))
    if ((left < usual)); then
      over=$((over + 1))
      echo "later    $name: it takes about $usual s, and $((left > 0 ? left : 0)) are left"
      return
    fi
  fi
  start=$(date +%s)
  timeout --kill-after=5 "$((${left:-$seconds} < seconds ? left : seconds))" bash -c "$4" >"$work/log" 2>&1 || status=$?
  local took=$(($(date +%s) - start))
  [[ -z $keep ]] || { cp "$work/log" "$keep/${name/\//_}.log"; echo "$name $status $took" >>"$keep/times"; }
  case $status in
    0) passed=$((passed + 1)); echo "passed   $name  ${took} s"; [[ -z $keep ]] || echo "$name" >>"$keep/passed" ;;
    77) echo "left out $name: $(tail -1 "$work/log")" ;;
    124 | 137)
      if ((${left:-$seconds} < seconds)); then
        over=$((over + 1)); echo "later    $name: not done after $left s, then the time was over"
      else
        failed=$((failed + 1)); echo "FAILED   $name: not done after $seconds s"; tail -n 15 "$work/log"
      fi ;;
    *) failed=$((failed + 1)); echo "FAILED   $name: status $status"; tail -n 25 "$work/log" ;;
  esac
}

# Each line of `shards`: SHARD NEEDS SECONDS[/USUAL] NAME COMMAND...; NEEDS is gpu, host, or named: a GPU, and only where
# the shard or the test is named.
run_needing() {  # NEEDS [SHARD or SHARD/NAME]
  local shard needs seconds name command
  while read -r shard needs seconds name command; do
    [[ $needs == "$1" || (-n ${2:-} && $needs == named && $1 == gpu) ]] || continue
    [[ -z ${2:-} || $shard == "$2" || $shard/$name == "$2" ]] || continue
    run_test "$shard/$name" "${seconds%/*}" "${seconds#*/}" "$command"
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
if ((${#wanted[@]} == 0)); then
  run_needing gpu
else
  for one in "${wanted[@]}"; do run_needing gpu "$one"; done
fi
echo "$passed passed, $failed failed, $over for a later call, $SECONDS s"
((failed == 0)) || exit 1
((over == 0)) || exit 75
