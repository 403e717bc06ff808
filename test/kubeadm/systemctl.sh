#!/bin/bash
# What kubeadm needs of systemctl where no systemd runs: it starts, stops and restarts the
# kubelet, with the flags that kubeadm's own unit has.
run=/run/stub
running() { [ -e $run/loop ] && kill -0 "$(cat $run/loop)" 2>/dev/null; }
stop() {
	[ -e $run/loop ] && kill "$(cat $run/loop)" 2>/dev/null
	if [ -e $run/kubelet ]; then
		kill "$(cat $run/kubelet)" 2>/dev/null
		while kill -0 "$(cat $run/kubelet)" 2>/dev/null; do sleep 0.1; done
	fi
	rm -f $run/loop $run/kubelet
}
start() {
	setsid bash -c 'echo $$ > '$run'/loop; while :; do . /var/lib/kubelet/kubeadm-flags.env
		kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
			--config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS >> /var/log/kubelet.log 2>&1 &
		echo $! > '$run'/kubelet; wait $!; sleep 1; done' </dev/null >/dev/null 2>&1 &
}
case "$*" in
*"restart"*kubelet*) stop; start ;;
*"start"*kubelet*) running || start ;;
*"stop"*kubelet*) stop ;;
*"is-active"*) running || exit 3 ;;
*"status"*) echo "Loaded: loaded" ;;
esac
