# Build, then run the tests; ends with CTest's summary.
# usage: ./dev test [slow|LABEL|all] [CTEST ARGUMENTS, e.g. -R REGEX]
# slow and all leave a report, build/reports/DATE_slow.md and .json; docs/testing.md says how it is committed.
# Default: everything but the labels slow, gpu and multi_gpu; the fuzzers run for 10 s each.

test_fuzzers=no test_setup= test_space=
arguments=()
case ${1:-} in
  "") arguments+=(-LE '^(slow|gpu|multi_gpu)$') test_fuzzers=yes ;;
  -*) arguments+=(-LE '^(slow|gpu|multi_gpu|fuzz)$') ;;
  all) test_fuzzers=yes test_setup=slow; shift ;;
  slow) test_setup=slow arguments+=(-L '^slow$'); shift ;;
  fuzz) test_fuzzers=yes arguments+=(-L '^fuzz$'); shift ;;
  *) arguments+=(-L "^$1\$"); shift ;;
esac
arguments+=("$@")

[[ $test_fuzzers == no ]] || test_space=fuzz
need_space test $test_setup $test_space
space_asked=yes
call setup $test_setup
[[ $test_fuzzers == no ]] || call fuzz --build-only
call build
test_status=0
if [[ $test_setup != slow ]]; then
  ctest --test-dir build -j "$JOBS" --output-on-failure --no-tests=error "${arguments[@]}" || test_status=$?
else
  mkdir -p build/reports
  ctest --test-dir build -j "$JOBS" --output-on-failure --no-tests=error --output-junit "$PWD/build/reports/ctest.xml" \
    "${arguments[@]}" || test_status=$?
  .venv/bin/python tools/suites/slow_report.py build/reports/ctest.xml build/reports
fi
# What test programs skipped (tests/main.cpp), by reason: up to three names, and how many more.
awk -F': ' '/^not run: / { why = $3; for (k = 4; k <= NF; ++k) why = why ": " $k; if (++n[why] <= 3) names[why] = names[why] " " $2 }
  END { for (why in n) print "not run:" names[why] (n[why] > 3 ? " and " n[why] - 3 " more" : "") ": " why }' \
  build/Testing/Temporary/LastTest.log | sort
exit "$test_status"
