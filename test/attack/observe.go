package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Cost is the effect of an attack.
type Cost struct {
	Times  int           // the result of Attack.Run
	CPU    float64       // part of one processor that the sidecar and its member used, in all
	Probes int           // health probes of others
	P99    time.Duration // of those
	Failed []error       // probes that were not answered as they should be
}

// probeTimeout is long: on a busy machine, time that passes says nothing.
const probeTimeout = 10 * time.Second

// Observation is how a sidecar is observed while it is attacked.
type Observation struct {
	PID    int
	URL    string   // of the HTTP API
	Gate   int      // the status code of /readyz
	Probes []net.IP // addresses of load balancers: each probes once a second, with a new connection
}

// ask returns the probe of a load balancer: half of them ask /readyz, the others /livez.
func (o Observation) ask(ctx context.Context, client *http.Client, balancer int) error {
	if balancer%2 == 0 {
		return probe(ctx, client, o.URL+"/readyz", o.Gate)
	}
	return probe(ctx, client, o.URL+"/livez", http.StatusOK)
}

// During runs f, and returns its cost.
func (o Observation) During(ctx context.Context, f func() int) (Cost, error) {
	before, err := o.processorTime()
	if err != nil {
		return Cost{}, err
	}
	began := time.Now()
	probing, stop := context.WithCancel(ctx)
	var out Cost
	var times []time.Duration
	var mu sync.Mutex // mu guards out and times
	var running sync.WaitGroup
	for i, from := range o.Probes {
		running.Go(func() {
			client := newClient(from)
			pause := time.NewTimer(time.Duration(i) * time.Second / time.Duration(len(o.Probes)))
			defer pause.Stop()
			for await(probing, pause) {
				begin := time.Now()
				err := o.ask(ctx, client, i)
				mu.Lock()
				times = append(times, time.Since(begin))
				if err != nil {
					out.Failed = append(out.Failed, err)
				}
				mu.Unlock()
				pause.Reset(time.Second)
			}
		})
	}
	out.Times = f()
	lasted := time.Since(began)
	after, err := o.processorTime()
	stop()
	running.Wait()
	out.CPU, out.Probes = (after-before).Seconds()/lasted.Seconds(), len(times)
	if slices.Sort(times); len(times) > 0 {
		out.P99 = times[(len(times)*99+99)/100-1]
	}
	return out, err
}

// Ask probes once: both.
func (o Observation) Ask(ctx context.Context) error {
	client := newClient(nil)
	return errors.Join(o.ask(ctx, client, 0), o.ask(ctx, client, 1))
}

// Greet lets each load balancer probe once: those that came before an attack have a share that strangers cannot use up.
func (o Observation) Greet(ctx context.Context) (err error) {
	for i, from := range o.Probes {
		err = errors.Join(err, o.ask(ctx, newClient(from), i))
	}
	return err
}

// newClient returns one that makes a connection for each request.
func newClient(from net.IP) *http.Client {
	return &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a load balancer does not verify
		DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext,
	}}
}

// await reports false if ctx ended first.
func await(ctx context.Context, pause *time.Timer) bool {
	select {
	case <-ctx.Done():
		return false
	case <-pause.C:
		return true
	}
}

func probe(ctx context.Context, client *http.Client, url string, want int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return fmt.Errorf("%s: %s, want %d", url, response.Status, want)
	}
	return nil
}

// processorTime returns the CPU time that a sidecar and its children used: the etcd member is one.
func (o Observation) processorTime() (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", o.PID)) // each thread has its own
	if err != nil {
		return 0, err
	}
	all := []string{strconv.Itoa(o.PID)}
	for _, thread := range threads {
		children, err := os.ReadFile(thread)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has just ended
			return 0, err
		}
		all = append(all, strings.Fields(string(children))...)
	}
	for _, pid := range all {
		used, err := processorTime(pid)
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// processorTime returns the CPU time that a process used, without its children.
func processorTime(pid string) (time.Duration, error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	const user, system, hertz = 11, 12, 100
	if !found || len(fields) <= system {
		return 0, errors.New("/proc has no processor time")
	}
	a, errA := strconv.Atoi(fields[user])
	b, errB := strconv.Atoi(fields[system])
	return time.Duration(a+b) * time.Second / hertz, errors.Join(errA, errB)
}
