package cluster

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// APIServerPort is that of the kube-apiserver in test/local/services.
const APIServerPort = 6443

// NodeAddresses returns n loopback addresses in a row on which the usual ports of a
// sidecar that runs etcd itself are free, and that of its kube-apiserver: 127.0.0.2 and up,
// or 127.0.1.2 and up if another program uses those, and so on. All of 127.0.0.0/8 is local
// on Linux.
func NodeAddresses(n int) ([]string, error) {
	const nets = 256
	var last error
	for third := range nets {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("127.0.%d.%d", third, 2+i))
		}
		if last = portsFree(out); last == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("no %d loopback addresses with free ports: %w", n, last)
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
		}
	}
	return nil
}
