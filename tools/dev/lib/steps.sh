# What the subcommands of ./dev share: a step is one line with its time, and its log when it fails.

DEV_LOGS=build/logs
JOBS=${PERI_JOBS:-$(nproc)}

# die WORDS: say why on standard error and stop.
die() {
  echo "dev: $*" >&2
  exit 1
}

# call NAME [ARGUMENTS]: another subcommand, in this process.
call() {
  local name=$1
  shift
  . "tools/dev/$name.sh"
}

# step WORDS COMMAND...: run quietly; one line with the seconds it took; when it fails its log and its exit status.
step() {
  local words=$1 log start status=0
  shift
  mkdir -p "$DEV_LOGS"
  log=$DEV_LOGS/$(echo "$words" | tr -cs 'A-Za-z0-9' '_').log
  start=$(date +%s%N)
  printf '%-44s' "$words" >&2
  "$@" >"$log" 2>&1 || status=$?
  local tenths=$((($(date +%s%N) - start) / 100000000))
  if ((status != 0)); then
    printf ' failed after %d.%d s\n' $((tenths / 10)) $((tenths % 10)) >&2
    tail -n 60 "$log" >&2
    local command=$* # of a command over many files the beginning
    ((${#command} <= 300)) || command="${command:0:300}…"
    echo "dev: '$command' failed with status $status; the whole log: $log" >&2
    exit "$status"
  fi
  printf ' %5d.%d s\n' $((tenths / 10)) $((tenths % 10)) >&2
}

# stamp FILE...: one hash over the contents of files.
stamp() {
  cat "$@" | sha256sum | cut -d' ' -f1
}
