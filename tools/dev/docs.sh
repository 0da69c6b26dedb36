# Build, then run the commands that README.md and docs/ show (all but ./dev itself).
# usage: ./dev docs [FILE...] [--label NAME]

call setup
call build
.venv/bin/python tools/docs/run.py "$@"
