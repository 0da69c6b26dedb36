# Make the relocatable bundle build/pack/peri-VERSION-linux-x86_64.tar.xz: program, library, headers, licences.
# usage: ./dev pack
# It runs on any x86-64 Linux with AVX2 and a C library at least as new as that of this machine.

call setup
call build
pack_name=peri-$(cat VERSION)-linux-x86_64
mkdir -p build/pack
step "bundle" tools/pack/bundle.sh build . "build/pack/$pack_name"
step "archive" tar -C build/pack --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
  -cf "build/pack/$pack_name.tar.xz" -I 'xz -T2 -6' "$pack_name"
ls -l "build/pack/$pack_name.tar.xz"
