# Set up if needed, configure, compile: leaves build/bin/peri.
# usage: [PERI_PCH=0] ./dev build [TARGET...]
# PERI_PCH=0 builds without the precompiled header; PERI_JOBS=N compiles with N processes.

(($# > 0)) || need_space build
call setup build
# Of links that were killed; one that runs is younger.
[[ ! -d build ]] || find build -maxdepth 2 -name ".mold-*" -type f -mmin +60 -delete
step "configure" cmake -S . -B build -G Ninja -DPERI_PCH="${PERI_PCH:-1}"
step "compile ${*:-everything}" ninja -C build -j "$JOBS" "$@"
