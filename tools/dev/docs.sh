# Build, then run the commands that README.md and docs/ show (all but ./dev itself).
# usage: ./dev docs [FILE...] [--label NAME]

python3 tools/docs/run.py --list "$@" >/dev/null || exit $?
call setup
call build
.venv/bin/python tools/docs/run.py "$@"
