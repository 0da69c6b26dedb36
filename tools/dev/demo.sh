# Set up, build, take three models from file to explained answer beside ONNX Runtime: leaves build/demo/index.html.
# usage: ./dev demo [--rebuild] [--picture FILE.svg]
# Engines stay in build/demo and are used again while model and program are the same; --rebuild makes them anew.
# --picture also writes the sentence picture. Status: 0, or 3 when an answer is wrong, 1 when something does not run.

need_space demo
space_asked=yes
call setup demo
call build peri
.venv/bin/python tools/demo/demo.py "$@"
