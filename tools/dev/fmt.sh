# Bring the sources into the house's format; --check only says which files are not.
# usage: ./dev fmt [--check] [FILE...]

fmt_mode=(-i)
if [[ ${1:-} == --check ]]; then
  fmt_mode=(--dry-run -Werror)
  shift
fi
command -v clang-format-19 >/dev/null || die "clang-format-19 is missing: run ./dev setup"
fmt_files=("$@")
if [[ ${#fmt_files[@]} -eq 0 ]]; then
  mapfile -t fmt_files < <(git ls-files --cached --others --exclude-standard -- \
    '*.cpp' '*.hpp' '*.h' '*.c' ':!:models' | sort)
fi
step "format of ${#fmt_files[@]} files" clang-format-19 "${fmt_mode[@]}" "${fmt_files[@]}"
