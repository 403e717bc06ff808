package cluster

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// APIServerPort is the port of the kube-apiserver in test/local/services.
const APIServerPort = 6443

// NodeAddresses returns n loopback addresses in a row on which the usual ports of a
// sidecar that runs etcd itself, and of its kube-apiserver, are free: 127.0.0.2 and up,
// or 127.0.1.2 and up if another program uses those, and so on. All of 127.0.0.0/8 is local
// on Linux. They are reserved until this process ends: other processes, and later calls, get
// other ones.
func NodeAddresses(n int) ([]string, error) {
	const nets = 256
	var last error
	for third := range nets {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("127.0.%d.%d", third, 2+i))
		}
		if last = reserve(out); last == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("no %d loopback addresses with free ports: %w", n, last)
}

// reservationPort is not used by a sidecar. The process that listens there reserves the address.
const reservationPort = 8085

var (
	reservationsMu sync.Mutex
	reservations   []net.Listener // reservationsMu guards it; the kernel closes them
)

// reserve reserves addresses whose ports are free, all or none.
func reserve(addresses []string) error {
	var all []net.Listener
	var failed error
	for _, address := range addresses {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(reservationPort)))
		if err != nil {
			failed = err
			break
		}
		all = append(all, l)
	}
	if failed == nil {
		failed = portsFree(addresses)
	}
	if failed != nil {
		for _, l := range all {
			_ = l.Close() // it has no connections
		}
		return failed
	}
	reservationsMu.Lock()
	defer reservationsMu.Unlock()
	reservations = append(reservations, all...)
	return nil
}

func portsFree(addresses []string) error {
	for _, address := range addresses {
		for _, port := range []int{8086, 8087, 8088, 8089, APIServerPort} { // listen, join, client, peer
			l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
			if err != nil {
				return err
			}
			if err := l.Close(); err != nil {
				return errors.Join(errors.New("cannot stop to listen"), err)
			}
			etcdtest.AwaitFree(l.Addr().String())
		}
	}
	return nil
}
