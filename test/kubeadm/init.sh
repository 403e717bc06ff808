#!/bin/sh
# The first process of a node: init.sh DIR NAME ADDRESS. It has network, mount, UTS and PID
# namespaces of its own; everything on the node ends with it. What is written below /etc and
# /var is kept in DIR, and not on the machine.
set -eu
dir=$1 name=$2 address=$3
hostname "$name"
mount -t tmpfs tmpfs /run
mkdir -p /run/containerd /run/netns /run/lock /run/stub
for top in etc var; do
	mkdir -p "$dir/$top" "$dir/$top.work"
	mount -t overlay -o "lowerdir=/$top,upperdir=$dir/$top,workdir=$dir/$top.work" overlay "/$top"
done
for place in /var/lib/kubelet /var/lib/etcd /var/lib/containerd /var/log/pods /var/log/containers; do
	mkdir -p "$place" "$dir/own$place"
	mount --bind "$dir/own$place" "$place"
done
mkdir -p /etc/cni/net.d
cp "$dir/10-ptp.conflist" /etc/cni/net.d/
echo "$address $name" >> /etc/hosts
mount --make-rshared /
echo 1 > /proc/sys/net/ipv4/ip_forward
touch "$dir/up"
# Processes without a parent become children of this one, which has to note their ends: bash
# does while it waits.
exec bash -c 'sleep infinity & wait $!'
