#!/usr/bin/env bash
# Builds the tests of the server with a sanitizer, in a folder of their own, and runs them.
# usage: serve.sh thread|address
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
case "${1:-}" in
  thread) kind=thread ;;
  address) kind=address,undefined ;;
  *) echo "usage: serve.sh thread|address"; exit 2 ;;
esac
folder=build-sanitize-$1
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPERI_SANITIZE="$kind" > /dev/null
cmake --build "$folder" --target test_serve hosted_fakes
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export ASAN_OPTIONS=detect_leaks=1
"$folder/bin/test_serve"
