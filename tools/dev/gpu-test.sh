# Pack, then run the tests labelled gpu on the GPU of this machine.
# usage: ./dev gpu-test [CTEST ARGUMENTS]
# Status: that of ctest; 77 where nothing could be run: the machine has no NVIDIA GPU, which is said before anything is made, or
# no test has the label.

gpu_count=0
for vendor in /sys/bus/pci/devices/*/vendor; do
  [[ ! -r $vendor || $(<"$vendor") != 0x10de ]] || ((++gpu_count))
done
if [[ $gpu_count == 0 && ! -e /dev/nvidia0 ]]; then
  echo "gpu-test: nothing was run: this machine has no NVIDIA GPU" >&2
  exit 77
fi
call pack
gpu_tests=$(ctest --test-dir build -N -L '^(gpu|multi_gpu)$' | sed -n 's/^Total Tests: //p')
if [[ ${gpu_tests:-0} == 0 ]]; then
  echo "gpu-test: nothing was run: no test has the label gpu or multi_gpu" >&2
  exit 77
fi
gpu_labels='^gpu$'
((gpu_count < 2)) || gpu_labels='^(gpu|multi_gpu)$'
ctest --test-dir build --output-on-failure --no-tests=error -L "$gpu_labels" "$@"
