package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	manager "github.com/lockstep-dev/lockstep/internal/cluster"
)

// benchMembers measures three members beside a kube-apiserver: idle, and when the node
// that leads etcd fails.
func benchMembers(ctx context.Context, b *bench) error {
	api, err := b.startAPI("members")
	if err != nil {
		return err
	}
	one := b.newMember("members-a", api.Kubeconfig())
	if _, err := join(ctx, one); err != nil {
		return err
	}
	flags, err := one.token(ctx)
	if err != nil {
		return err
	}
	nodes := []*member{one, b.newMember("members-b", api.Kubeconfig(), flags...), b.newMember("members-c", api.Kubeconfig(), flags...)}
	if _, err := join(ctx, nodes[1:]...); err != nil {
		return err
	}
	for _, m := range nodes {
		if _, err := m.await(ctx, "to be ready", func(v view) bool { return v.Ready.Ready }); err != nil {
			return err
		}
	}
	if err := b.idleMembers(ctx, nodes); err != nil {
		return err
	}
	var times []time.Duration
	for range b.opts.rounds {
		took, err := failOver(ctx, nodes)
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	b.report.measured(rowFailover, bar{max: 2 * time.Second}, times)
	return errors.Join(stopMembers(nodes...), api.Stop())
}

// The bars of three idle members, each with its sidecar.
const (
	idleMemory = 110e6
	idleCPU    = 0.015 // of a core
)

func (b *bench) idleMembers(ctx context.Context, nodes []*member) error {
	pause(ctx, 5*time.Second) // until the start is over
	var before, after []usage
	for _, m := range nodes {
		u, err := m.used()
		if err != nil {
			return err
		}
		before = append(before, u)
	}
	began := time.Now()
	pause(ctx, b.opts.idle)
	over := time.Since(began).Seconds()
	var cpu, memory float64
	for i, m := range nodes {
		u, err := m.used()
		if err != nil {
			return err
		}
		after = append(after, u)
		cpu, memory = max(cpu, (after[i].cpu-before[i].cpu)/over), max(memory, after[i].memory)
	}
	what := "3 idle sidecars with a member each, the largest: "
	b.report.fact(what+"resident memory of sidecar and member", fmt.Sprintf("%.0f MB", memory/1e6), "< 110 MB", memory < idleMemory)
	b.report.fact(what+"CPU of one core", fmt.Sprintf("%.2f %%", 100*cpu), "< 1.5 %", cpu < idleCPU)
	return nil
}

// used returns the usage of the sidecar and its member, as the kernel counts it.
func (m *member) used() (usage, error) {
	child, err := m.Child()
	if err != nil {
		return usage{}, err
	}
	var sum usage
	for _, pid := range []int{m.PID(), child} {
		u, err := usedBy(pid)
		if err != nil {
			return usage{}, err
		}
		sum.cpu, sum.memory = sum.cpu+u.cpu, sum.memory+u.memory
	}
	return sum, nil
}

// usedBy reads /proc: it needs Linux.
func usedBy(pid int) (usage, error) {
	const ticks = 100 // of the kernel in a second
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// Behind the name: STATE PPID ... with utime, stime and rss as the 12th, 13th and 22nd.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var user, system, pages int
	for i, value := range map[int]*int{11: &user, 12: &system, 21: &pages} {
		if *value, err = strconv.Atoi(fields[i]); err != nil {
			return usage{}, err
		}
	}
	return usage{cpu: float64(user+system) / ticks, memory: float64(pages * os.Getpagesize())}, nil
}

// failOver kills the node that leads etcd, and returns how long it takes until a client
// like a sidecar's can write. Then it starts the node again.
func failOver(ctx context.Context, nodes []*member) (time.Duration, error) {
	leader, others, err := leaderOf(ctx, nodes)
	if err != nil {
		return 0, err
	}
	client, err := others[0].client(append(others[1:], leader)...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	write := func() error {
		_, err := client.Txn(ctx, nil, []clientv3.Op{clientv3.OpPut("/bench/failover", "")}, nil)
		return err
	}
	if err := write(); err != nil { // it is connected
		return 0, err
	}
	begin, err := leader.kill()
	if err != nil {
		return 0, err
	}
	for err = write(); err != nil; err = write() {
		if time.Since(begin) > patience {
			return 0, fmt.Errorf("no write after the leader was killed: %w", err)
		}
		pause(ctx, redial)
	}
	took := time.Since(begin)
	leader.close()
	if _, err := join(ctx, leader); err != nil {
		return 0, err
	}
	_, err = leader.await(ctx, "to be ready again", func(v view) bool { return v.Ready.Ready })
	return took, err
}

// client returns a client like the one of m's sidecar. Its first endpoint is m's own.
func (m *member) client(others ...*member) (*etcd.Client, error) {
	cfg, err := manager.Reach(m.dir, "/bench/")
	if err != nil {
		return nil, err
	}
	own := manager.Embedded{DataDir: m.dir, Address: m.address}
	cfg.AttemptTimeout = own.EtcdConfig("").AttemptTimeout
	for _, o := range others {
		cfg.Endpoints = append(cfg.Endpoints, strings.Replace(cfg.Endpoints[0], m.address, o.address, 1))
	}
	return etcd.NewClient(cfg)
}

// leaderOf returns the node whose member leads etcd, and the others.
func leaderOf(ctx context.Context, nodes []*member) (*member, []*member, error) {
	for _, m := range nodes {
		client, err := m.client()
		if err != nil {
			return nil, nil, err
		}
		status, err := client.MemberStatus(ctx, client.Endpoint())
		if err := errors.Join(err, client.Close()); err != nil {
			return nil, nil, err
		}
		if status.Leader == status.ID {
			return m, slices.DeleteFunc(slices.Clone(nodes), func(o *member) bool { return o == m }), nil
		}
	}
	return nil, nil, errors.New("no member leads etcd")
}
