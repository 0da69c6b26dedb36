# Build the fuzzers with address and undefined-behaviour sanitizers and run them; a finding is an error.
# usage: ./dev fuzz [NAME...] [--seconds N] [--build-only] [--minimize]
# Default: all of tests/fuzz, 60 seconds each. --minimize afterwards writes the smallest corpus with the same coverage to
# tests/fuzz/corpus. Findings: build-fuzz/findings/NAME.

fuzz_seconds=60 fuzz_mode=run fuzz_names=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --seconds)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "fuzz: --seconds needs a number of seconds"
      fuzz_seconds=$2
      shift
      ;;
    --build-only) fuzz_mode=build ;;
    --minimize) fuzz_mode=minimize ;;
    -*) die "fuzz: unknown argument '$1'" ;;
    *)
      [[ -f tests/fuzz/$1_fuzz.cpp ]] || die "fuzz: there is no fuzzer '$1' in tests/fuzz"
      fuzz_names+=("$1")
      ;;
  esac
  shift
done
if [[ ${#fuzz_names[@]} -eq 0 ]]; then
  for file in tests/fuzz/*_fuzz.cpp; do
    file=$(basename "$file" _fuzz.cpp)
    fuzz_names+=("$file")
  done
fi

need_space fuzz
call setup build
command -v clang++-19 >/dev/null || die "clang-19 is missing: run ./dev setup"
step "configure the fuzzers" cmake -S . -B build-fuzz -G Ninja -DPERI_FUZZ=ON -DPERI_PCH=ON -DPERI_TESTS=OFF \
  -DPERI_SANITIZE=address,undefined -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_C_COMPILER=clang-19
step "compile ${#fuzz_names[@]} fuzzers" ninja -C build-fuzz -j "$JOBS" "${fuzz_names[@]/#/fuzz_}"
[[ $fuzz_mode == build ]] && return 0
for name in "${fuzz_names[@]}"; do
  step "fuzz $name for $fuzz_seconds s" tools/fuzz/run.sh "$name" "$fuzz_seconds"
  grep -E 'number_of_executed_units|new_units_added' "build/logs/fuzz_${name}_for_${fuzz_seconds}_s_.log" || true
  if [[ $fuzz_mode == minimize ]]; then
    rm -rf "build-fuzz/minimal/$name"
    mkdir -p "build-fuzz/minimal/$name"
    step "minimize the corpus of $name" "build-fuzz/bin/fuzz_$name" -merge=1 -max_len=4096 "build-fuzz/minimal/$name" \
      "tests/fuzz/corpus/$name" "build-fuzz/corpus/$name"
    rm -rf "tests/fuzz/corpus/$name"
    cp -r "build-fuzz/minimal/$name" "tests/fuzz/corpus/$name"
  fi
done
