package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// saysServes is the word that the peer "etcd" reports when it serves.
const saysServes = "serves"

// runEtcd is the peer "etcd": one that syncs to the disk, with etcd's default timing,
// in a process of its own, so that nothing else counts as its CPU time.
func runEtcd(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("etcd", flag.ExitOnError)
	dir := set.String("dir", "", "")
	addr := set.String("addr", "", "")
	if err := set.Parse(args); err != nil {
		return err
	}
	server, err := etcdtest.Start(etcdtest.Config{Dir: *dir, Addr: *addr, Fsync: true, Heartbeat: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	say(saysServes)
	<-ctx.Done()
	return server.Close()
}

// etcdCounts are the values of an etcd's metrics at one time.
type etcdCounts struct {
	at       time.Time
	started  float64 // of the process; Unix time
	cpu      float64 // seconds
	memory   float64 // resident, bytes
	watchers float64
	streams  float64
	entries  float64            // of raft, applied
	requests map[string]float64 // by method. A keep-alive is a stream, which is counted once
}

// ofEtcd are the names of etcd's metrics.
const (
	metricStarted  = "process_start_time_seconds"
	metricCPU      = "process_cpu_seconds_total"
	metricMemory   = "process_resident_memory_bytes"
	metricWatchers = "etcd_debugging_mvcc_watcher_total"
	metricStreams  = "etcd_debugging_mvcc_watch_stream_total"
	metricEntries  = "etcd_server_proposals_applied_total"
	metricRequests = "grpc_server_started_total"
)

// sampleLine is a line of the Prometheus text format.
var sampleLine = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? (\S+)$`)

var methodLabel = regexp.MustCompile(`grpc_method="([^"]+)"`)

// readEtcd reads the metrics of the etcd at url.
func readEtcd(ctx context.Context, url string) (etcdCounts, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return etcdCounts{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return etcdCounts{}, err
	}
	defer resp.Body.Close()
	return parseEtcd(resp.Body, time.Now())
}

func parseEtcd(text io.Reader, at time.Time) (etcdCounts, error) {
	out := etcdCounts{at: at, requests: map[string]float64{}}
	single := map[string]*float64{
		metricStarted: &out.started, metricCPU: &out.cpu, metricMemory: &out.memory, metricWatchers: &out.watchers,
		metricStreams: &out.streams, metricEntries: &out.entries,
	}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		parts := sampleLine.FindStringSubmatch(lines.Text())
		if parts == nil {
			continue
		}
		value, err := strconv.ParseFloat(parts[3], 64)
		if err != nil {
			return etcdCounts{}, fmt.Errorf("the metrics of etcd: %w", err)
		}
		if to := single[parts[1]]; to != nil {
			*to = value
			delete(single, parts[1])
		}
		if method := methodLabel.FindStringSubmatch(parts[2]); parts[1] == metricRequests && method != nil {
			out.requests[method[1]] += value
		}
	}
	if len(single) > 0 {
		return etcdCounts{}, fmt.Errorf("the metrics of etcd do not have %s", slices.Sorted(maps.Keys(single)))
	}
	return out, lines.Err()
}

// phase is the work of etcd and the sidecars in some time, for each second of it.
type phase struct {
	EtcdCPU  float64 // 1 is a core
	OwnCPU   float64 // of the process with the sidecars
	Entries  float64
	Requests map[string]float64

	// At its end:
	Memory, Watchers, Streams float64
}

func (p phase) all() float64 {
	var sum float64
	for _, rate := range p.Requests {
		sum += rate
	}
	return sum
}

// phaseOf returns the phase between two readings of the metrics; own is the CPU time
// of this process in between.
func phaseOf(before, after etcdCounts, own time.Duration) phase {
	seconds := after.at.Sub(before.at).Seconds()
	out := phase{
		EtcdCPU: (after.cpu - before.cpu) / seconds, OwnCPU: own.Seconds() / seconds,
		Entries: (after.entries - before.entries) / seconds, Requests: map[string]float64{},
		Memory: after.memory, Watchers: after.watchers, Streams: after.streams,
	}
	for method, n := range after.requests {
		out.Requests[method] = (n - before.requests[method]) / seconds
	}
	return out
}
