# Build, then measure models beside ONNX Runtime and OpenVINO, and kernels by themselves: files in benchmarks/results.
# usage: ./dev bench [--quick] [--only peers|micro] [--batch 1,8] [--threads N] [--openvino-precision f32] [--out DIR]
#        [MODEL...]
# MODEL: a name from models/README.md; default: the nine graphs that stand for their kind, with --quick three of them at
# batch 1. Writes DATE_cpu_peers.json and DATE_cpu_micro.json (_quick with --quick, _part with models or batches of your
# own, _f32 with OpenVINO held to it): figures with the machine, the commit and the peers' versions. Measure on a machine that does nothing else.

bench_models=$(python3 tools/bench/bench.py --list "$@") || exit $?
call setup bench
[[ -z $bench_models ]] || setup_models $bench_models
call build peri benchmarks
.venv/bin/python tools/bench/bench.py "$@"
