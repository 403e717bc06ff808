package soak

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// This file is about etcd and the kube-apiservers, before there are sidecars.

// connect makes the clients of etcd.
func (w *world) connect(credentials *tls.Config) error {
	connect := func(endpoints ...string) (*clientv3.Client, error) {
		return clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: credentials, Logger: zap.NewNop()})
	}
	for _, endpoint := range w.endpoints() {
		client, err := connect(endpoint)
		if err != nil {
			return fmt.Errorf("start: %w", err)
		}
		w.rec.clients = append(w.rec.clients, client)
	}
	var err error
	if w.etcd, err = connect(w.endpoints()...); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

func (w *world) newServer(i int) (*server, error) {
	s := &server{name: fmt.Sprintf("api-%d", i+1)}
	var err error
	if w.network != nil {
		s.machine = w.network.Machine(nodeNames[i])
		s.addr = net.JoinHostPort(s.machine.Address.String(), "6443")
		return s, nil
	}
	if s.addr, err = cluster.FreeAddr(); err != nil {
		return nil, err
	}
	s.members, err = w.proxiesToEtcd()
	return s, err
}

func (w *world) startServers() error {
	var starting sync.WaitGroup
	errs := make([]error, len(w.servers))
	for i, s := range w.servers {
		starting.Go(func() { errs[i] = w.startServer(s) })
	}
	starting.Wait()
	return errors.Join(errs...)
}

func (w *world) startServer(s *server) (err error) {
	cfg := cluster.APIServerConfig{
		Name: s.name, Addr: s.addr, EtcdServers: urls(s.members),
		Args: []string{
			"--storage-media-type=application/json", // for the recorder
			"--etcd-compaction-interval=0",          // the soak compacts, up to the last recorded revision
		},
	}
	if s.machine != nil {
		cfg.EtcdServers, cfg.Wrapper = w.endpoints(), s.machine.Wrapper()
		cfg.Args = append(cfg.Args, w.credentials()...)
	}
	if s.api, err = w.cluster.StartAPIServer(cfg); err != nil {
		return err
	}
	if s.client == nil {
		cfg := s.api.Config()
		cfg.Timeout = 3 * time.Second
		s.client, err = dynamic.NewForConfig(cfg)
	}
	return err
}
