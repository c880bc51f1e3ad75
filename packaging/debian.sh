#!/bin/sh
# Builds the Debian packages of this tree in OUT, from a copy of its files. usage: debian.sh VERSION OUT
set -eu
version=$1 out=$2 here=$(dirname "$0")
date=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)}
tree=$out/onnxc-$version
rm -rf "$out"
mkdir -p "$tree"
git ls-files -co --exclude-standard | while read -r file; do [ ! -e "$file" ] || echo "$file"; done | tar -cf - -T - | tar -C "$tree" -xf -
cp -r "$here/debian" "$tree/debian"
rm -r "$tree/packaging/debian"
value() { sed -n "s/^$1=//p" "$here/project.conf"; }
for file in changelog control copyright; do
    sed "s|@VERSION@|$version|; s|@DATE@|$(date -u -R -d "@$date")|; s|@HOME@|$(value HOME)|; s|@MAINTAINER@|$(value MAINTAINER)|" \
        "$tree/debian/$file.in" >"$tree/debian/$file"
    rm "$tree/debian/$file.in"
done
cd "$tree"
SOURCE_DATE_EPOCH=$date dpkg-buildpackage -us -uc -b -j"$(nproc)" >../build.log 2>&1 || { tail -n 30 ../build.log >&2; exit 1; }
cd .. && ls ./*.deb
