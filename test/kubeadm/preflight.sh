#!/bin/sh
# Whether this machine can run make kubelet-test and make kubeadm-test. If not, it says why,
# and fails. It tries what a node needs, and leaves nothing behind.
cannot() {
	echo "$*"
	exit 1
}
[ "$(uname -s)" = Linux ] || cannot "this is not Linux"
[ "$(id -u)" = 0 ] || cannot "this is not root"
grep -Eq '^ *0 +0 +4294967295$' /proc/self/uid_map || cannot "this is root in a user namespace only"
for program in containerd ctr runc buildah conntrack socat ethtool ip nsenter unshare; do
	command -v "$program" >/dev/null || cannot "there is no program $program: apt-get install --no-install-recommends" \
		"containerd runc buildah containernetworking-plugins conntrack socat ethtool iproute2 util-linux"
done
[ -x /usr/lib/cni/ptp ] || cannot "there is no /usr/lib/cni/ptp: apt-get install containernetworking-plugins"
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || cannot "this machine has cgroup v2, and the nodes are made for v1"
for hierarchy in cpu cpuset memory pids devices freezer; do
	group=/sys/fs/cgroup/$hierarchy/lockstep-preflight-$$
	problem=$(mkdir "$group" 2>&1) || cannot "no cgroup can be made: $problem"
	rmdir "$group"
done
dir=$(mktemp -d) || cannot "no directory for files that pass"
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/upper" "$dir/work"
problem=$(unshare --net --mount --uts --pid --fork --kill-child --mount-proc --propagation private sh -euc "
	hostname preflight
	mount -t overlay -o lowerdir=/etc,upperdir=$dir/upper,workdir=$dir/work overlay /etc
	mount --make-rshared /
	ip link set lo up
	ip link add preflight0 type veth peer name preflight1
	echo 1 > /proc/sys/net/ipv4/ip_forward
" 2>&1) || cannot "a node needs namespaces, mounts and devices of its own: $problem"
