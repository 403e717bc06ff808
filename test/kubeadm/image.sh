#!/bin/sh
# Builds the image of the sidecar from the Dockerfile, without a Docker engine and without a
# registry: image.sh OUT.tar NAME:TAG. It needs root, and Debian's buildah. The image that compiles
# is made of this machine: its Go, its shell, its certificates of authorities.
set -eu
out=$1 name=$2
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
# vfs makes plain directories, so there is nothing to unmount.
trap 'rm -rf "$work"' EXIT
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
# Where buildah keeps what RUN --mount=type=cache has, for the next time. It has Go modules, so
# it must not be in this one.
export TMPDIR="${XDG_CACHE_HOME:-$HOME/.cache}/lockstep-buildah"
mkdir -p "$TMPDIR"
b() { buildah --root "$work/root" --runroot "$work/run" "$@"; }

# The compiler, and what RUN needs.
c=$(b from scratch)
m=$(b mount "$c")
mkdir -p "$m/usr/local" "$m/bin" "$m/tmp" "$m/etc" "$m/root"
cp -a "$(go env GOROOT)" "$m/usr/local/go"
cp -L /bin/sh "$m/bin/sh"
ldd /bin/sh | grep -o '/[^ ]*' | while read -r library; do
	mkdir -p "$m$(dirname "$library")"
	cp -L "$library" "$m$library"
done
mkdir -p "$m/etc/ssl"
cp -rL /etc/ssl/certs "$m/etc/ssl/"
# Modules that this machine has are not fetched again.
b config --env PATH=/usr/local/go/bin:/bin --env HOME=/root --env GOFLAGS=-modcacherw \
	--env "GOPROXY=file:///modules/cache/download,$(go env GOPROXY)" "$c"
b commit -q --rm "$c" localhost/golang >/dev/null

b bud -q --network host -v "$(go env GOMODCACHE):/modules:ro" --build-arg BUILD_IMAGE=localhost/golang \
	--build-arg VERSION="${name##*:}" -t "$name" "$top" >&2
rm -f "$out"
b push -q "$name" "docker-archive:$out:$name" >&2
