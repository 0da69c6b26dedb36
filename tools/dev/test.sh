# Build, then run the tests; ends with CTest's summary.
# usage: ./dev test [slow|LABEL|all] [-R REGEX] [CTEST ARGUMENTS]
# Default: everything but the labels slow, gpu and multi_gpu.

DEV_SKIPPED='^(slow|gpu|multi_gpu)$'
arguments=()
if [[ ${1:-} == all ]]; then
  shift
elif [[ -n ${1:-} && $1 != -* ]]; then
  arguments+=(-L "^$1\$")
  shift
else
  arguments+=(-LE "$DEV_SKIPPED")
fi
arguments+=("$@")

call setup
call build
ctest --test-dir build -j "$JOBS" --output-on-failure --no-tests=error "${arguments[@]}"
