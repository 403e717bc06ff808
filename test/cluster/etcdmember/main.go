// Command etcdmember is one member of an etcd cluster on loopback. It is a process so
// that a test can pause it or kill it. It does not write through to the disk: its
// data survives its own end, but not a crash of the machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	cfg, err := config()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1) // the first one is enough
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer server.Close()
	select {
	case <-signals:
		return nil
	case err := <-server.Err():
		return fmt.Errorf("etcd ended: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("etcd ended by itself")
	}
}

func config() (*embed.Config, error) {
	cfg := embed.NewConfig()
	client := flag.String("client", "", "host:port for clients")
	peer := flag.String("peer", "", "host:port to listen on for the other members; they dial the URL in -cluster")
	heartbeat := flag.Duration("heartbeat", 0, "raft heartbeat; the election timeout is ten times that")
	flag.StringVar(&cfg.Name, "name", "", "of this member")
	flag.StringVar(&cfg.Dir, "dir", "", "for the data")
	flag.StringVar(&cfg.InitialCluster, "cluster", "", "all members: NAME=http://PEER,...")
	flag.Parse()
	if cfg.Dir == "" || *client == "" || *peer == "" || *heartbeat == 0 {
		return nil, errors.New("-dir, -client, -peer and -heartbeat are required")
	}
	members, _, err := cfg.PeerURLsMapAndToken("etcd")
	if err != nil {
		return nil, fmt.Errorf("-cluster: %w", err)
	}
	clients := []url.URL{{Scheme: "http", Host: *client}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = clients, clients
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: *peer}}, members[cfg.Name]
	cfg.TickMs = uint(heartbeat.Milliseconds())
	cfg.ElectionMs = 10 * cfg.TickMs
	cfg.UnsafeNoFsync = true
	cfg.EnableGRPCGateway = false
	cfg.LogLevel, cfg.LogOutputs = "warn", []string{"stderr"}
	return cfg, nil
}
