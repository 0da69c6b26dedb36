# Room on the disk, asked for before long work begins: lib/space.txt says how much each part takes.

# need_space WORK...: stop at once where what these make cannot fit; say how much it is. What is there counts. A part that
# has three quarters of its size is taken as whole, since sizes differ by compiler and commit: what is built is not refused.
need_space() {
  local path mib works had need=0 free wanted
  [[ -z ${space_asked:-} ]] || return 0 # for all of it, by who called
  while read -r path mib works; do
    [[ $path != '#'* && -n $path ]] || continue
    for wanted in "$@"; do
      [[ " $works " == *" $wanted "* ]] || continue
      had=$(du -sck $path 2>/dev/null | tail -n 1 | cut -f 1) || true # a path may be a pattern, or not there yet
      had=${had:-0}
      ((had * 4 >= mib * 1024 * 3)) || need=$((need + mib * 1024 - had))
      break
    done
  done <tools/dev/lib/space.txt
  ((need > 0)) || return 0
  need=$(((need + 1023) / 1024))
  free=$(df -Pm . | awk 'NR == 2 {print $4}')
  printf '%-44s %5d.%d GiB of %d.%d free\n' "disk space that is needed" $((need / 1024)) $((need % 1024 * 10 / 1024)) \
    $((free / 1024)) $((free % 1024 * 10 / 1024)) >&2
  ((free >= need)) || [[ ${DEV_ANY_SPACE:-} == 1 ]] ||
    die "too little space on the disk of $PWD: $need MiB more are needed for '$*', $free MiB are free." \
      "Make room (what ./dev pack and ./dev fuzz make in build/pack and build-fuzz is made again when it is asked for; peri cache clear)," \
      "or work in a checkout on a larger disk; DEV_ANY_SPACE=1 goes on all the same"
}
