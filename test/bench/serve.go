package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// serveCases returns the cases that measure how fast the HTTP API answers.
func serveCases() []benchCase {
	return []benchCase{{group: "serve", name: "serve", run: benchServe}}
}

func serveRows() []string { return []string{rowScrape, rowScrapeBare} }

const (
	rowScrape     = "GET /metrics, beside 64 streams and a change each second"
	rowScrapeBare = "the same of a bare promhttp handler with as many series, without streams"

	scrapes          = 1000
	serveStreams     = 63 // one more is the observer's
	serveConnections = 64
	serveRounds      = 40
	serveTime        = 200 * time.Millisecond // of a round, for each of the two
)

// benchServe measures a sidecar that 63 clients and this benchmark follow, while a fact that it shows changes each
// second, and a scraper reads its metrics.
func benchServe(ctx context.Context, b *bench) (err error) {
	nodes, err := b.startGates(ctx, "serve")
	if err != nil {
		return err
	}
	peerAddr, err := cluster.FreeAddr()
	if err != nil {
		return err
	}
	_, metrics, err := nodes[0].Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	plain, err := b.launch("chi", "chi", peerAddr, strconv.Itoa(seriesOf(metrics)))
	if err != nil {
		return err
	}
	beside, cancel := context.WithCancel(ctx)
	group, groupCtx := errgroup.WithContext(beside)
	defer func() {
		cancel()
		err = errors.Join(err, group.Wait(), plain.end(syscall.SIGTERM), stopAll(nodes))
	}()
	if _, err := plain.await(ctx, saysServes); err != nil {
		return err
	}
	target := nodes[0]
	for range serveStreams {
		group.Go(func() error { return followStream(groupCtx, target.URL()) })
	}
	group.Go(func() error { return b.changeStatus(groupCtx, "serve") })

	if err := b.compareScrapes(ctx, target, peerAddr); err != nil {
		return err
	}
	group.Go(func() error { return scrape(groupCtx, target) })
	return b.compareServing(ctx, target.Listen(), peerAddr)
}

// compareScrapes reads the metrics of a sidecar and of a bare handler with as many series in turn, each over a new
// connection.
func (b *bench) compareScrapes(ctx context.Context, sidecar *node, other string) error {
	client := sidecar.NewClient(0)
	var times [2][]time.Duration
	for round := range max(b.opts.n, scrapes) {
		for half := range times {
			who := (round + half) % len(times) // the first one finds processors that slept: that changes
			begin := time.Now()
			if err := getAll(ctx, client, []string{sidecar.URL(), "http://" + other}[who]+"/metrics"); err != nil {
				return err
			}
			times[who] = append(times[who], time.Since(begin))
		}
		pause(ctx, 50*time.Millisecond)
	}
	b.report.measured(rowScrape, bar{p99: 10 * time.Millisecond}, times[0])
	b.report.measured(rowScrapeBare, bar{}, times[1])
	var ratios [2]float64
	for i, p := range []float64{50, 99} {
		ratios[i] = float64(percentile(times[0], p)) / float64(percentile(times[1], p))
	}
	b.report.fact("GET /metrics, its times in those of the bare handler", fmt.Sprintf("p50 %.2f, p99 %.2f", ratios[0], ratios[1]),
		"p50 <= 1.50, p99 <= 1.50", max(ratios[0], ratios[1]) <= 1.5)
	return nil
}

// getAll reads the answer to a GET, which must be 200.
func getAll(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

// seriesOf counts the series in the text of /metrics.
func seriesOf(text string) (n int) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// compareServing requests /readyz of a sidecar and of a bare handler in turn, in short rounds, so that other work of the
// machine meets both alike. Each round gives a ratio, and the median of these counts.
func (b *bench) compareServing(ctx context.Context, sidecar, other string) error {
	var rates [2][]float64
	var ratios []float64
	for round := range serveRounds {
		for half := range rates {
			who := (round + half) % len(rates) // who is first changes
			rate, err := requestRate(ctx, []string{sidecar, other}[who])
			if err != nil {
				return err
			}
			rates[who] = append(rates[who], rate)
		}
		ratios = append(ratios, rates[0][round]/rates[1][round])
	}
	typical := median(ratios)
	b.report.fact(fmt.Sprintf("GET /readyz at %d connections, beside 64 streams and a scraper", serveConnections),
		fmt.Sprintf("%.0f/s; a bare chi handler %.0f/s: %.2f", median(rates[0]), median(rates[1]), typical), ">= 0.90 of the bare handler", typical >= 0.9)
	return nil
}

// followStream reads /status?watch until ctx ends.
func followStream(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/status?watch", http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{}} // a connection of its own
	resp, err := client.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("a stream is refused: %s", resp.Status), resp.Body.Close())
	}
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// changeStatus writes another status each second.
func (b *bench) changeStatus(ctx context.Context, name string) error {
	for i := int64(0); ctx.Err() == nil; i++ {
		if _, err := b.putStatus(ctx, name, protocol.Release{Patch: i % 2}); err != nil && ctx.Err() == nil {
			return err
		}
		pause(ctx, time.Second)
	}
	return nil
}

// scrape reads the metrics each second.
func scrape(ctx context.Context, n *node) error {
	for ctx.Err() == nil {
		if _, _, err := n.Get(ctx, "/metrics"); err != nil && ctx.Err() == nil {
			return err
		}
		pause(ctx, time.Second)
	}
	return nil
}

// requestRate returns how many requests for /readyz are answered in a second, over connections that are kept. The clients
// do as little as possible, since they share the processors with the server.
func requestRate(ctx context.Context, addr string) (float64, error) {
	var answered atomic.Int64
	group, groupCtx := errgroup.WithContext(ctx)
	begin := time.Now()
	end := begin.Add(serveTime)
	for range serveConnections {
		group.Go(func() error { return requestUntil(groupCtx, addr, end, &answered) })
	}
	err := group.Wait()
	return float64(answered.Load()) / time.Since(begin).Seconds(), err
}

func requestUntil(ctx context.Context, addr string, end time.Time, answered *atomic.Int64) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	request, r := []byte("GET /readyz HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"), bufio.NewReader(conn)
	for n := int64(0); ; n++ {
		if n%64 == 0 && (time.Now().After(end) || ctx.Err() != nil) {
			return nil
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if err := readOK(r); err != nil {
			return err
		}
		answered.Add(1)
	}
}

// readOK reads a response of 200.
func readOK(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(status), "HTTP/1.1 200 ") {
		return fmt.Errorf("the answer is %s", status)
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			_, err := r.Discard(length)
			return err
		}
		if value, found := strings.CutPrefix(string(line), "Content-Length: "); found {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		}
	}
}

// runChi serves /readyz with a router and a handler that only answers ok, and /metrics with a number of series.
func runChi(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("chi needs an address and a number of series")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	body := []byte("ok")
	router := chi.NewRouter()
	router.Get("/readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	router.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(plainSeries(n), promhttp.HandlerOpts{DisableCompression: true}))
	server := &http.Server{Handler: router, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	say(saysServes)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// plainSeries returns gauges with n series, ten each.
func plainSeries(n int) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	for family := range n / 10 {
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: fmt.Sprintf("bench_plain_%d_seconds", family),
			Help: "A gauge with a help text that is about as long as those of the sidecar, which is 100 letters.",
		}, []string{"reason"})
		registry.MustRegister(vec)
		for i := range 10 {
			vec.WithLabelValues(fmt.Sprintf("Reason%d", i)).Set(float64(i))
		}
	}
	return registry
}
