# Check the rules of the house, the format, and with `clang` also clang-tidy (slow) on changed or named sources.
# usage: ./dev tidy [clang [FILE...]]

[[ ${1:-clang} == clang ]] || die "tidy: unknown argument '$1'"
for file in "${@:2}"; do
  [[ -f $file ]] || die "tidy: there is no file '$file'"
done
python3 tools/tidy/tidy.py
call fmt --check
if [[ ${1:-} == clang ]]; then
  shift
  call setup build
  [[ -f build/compile_commands.json ]] || step "configure" cmake -S . -B build -G Ninja
  files=("$@")
  [[ ${#files[@]} -gt 0 ]] || mapfile -t files < <(git diff --name-only --diff-filter=d HEAD~1 -- 'src/*.cpp')
  [[ ${#files[@]} -eq 0 ]] || step "clang-tidy on ${#files[@]} files" python3 tools/tidy/clang_tidy.py build "${files[@]}"
fi
