# Bring the sources into the house's format; --check only says which files are not.
# usage: ./dev fmt [--check] [FILE...]
# FILE: C++ and C. What is of another kind is refused, and then nothing is formatted.

fmt_mode=(-i)
if [[ ${1:-} == --check ]]; then
  fmt_mode=(--dry-run -Werror)
  shift
fi
command -v clang-format-19 >/dev/null || die "clang-format-19 is missing: run ./dev setup"
fmt_files=("$@")
for fmt_file in "${fmt_files[@]}"; do
  [[ $fmt_file != -* ]] || die "fmt: unknown argument '$fmt_file'"
  [[ $fmt_file =~ \.(cpp|hpp|h|c)$ ]] || die "fmt: '$fmt_file' is no source of C++ or C: expected *.cpp, *.hpp, *.h or *.c"
  [[ -f $fmt_file ]] || die "fmt: there is no file '$fmt_file'"
done
if [[ ${#fmt_files[@]} -eq 0 ]]; then
  mapfile -t fmt_files < <(git ls-files --cached --others --exclude-standard -- \
    '*.cpp' '*.hpp' '*.h' '*.c' ':!:models' | sort)
fi
step "format of ${#fmt_files[@]} files" clang-format-19 "${fmt_mode[@]}" "${fmt_files[@]}"
