package app

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// process collects the process_* metrics, except process_network_*: the traffic of the whole machine. The library's collector
// reads six files of /proc at each scrape, a third of its time. This one reads a file and a directory, and asks for constant
// values once.
type process struct {
	fixed                       []prometheus.Metric
	cpu, fds, virtual, resident *prometheus.Desc
	page                        float64
	start                       *prometheus.Desc // nil: not known
	began                       time.Time        // by the monotonic clock: the other one may be set
}

// kernelTick is the unit in which Linux counts when a process began.
const kernelTick = 10 * time.Millisecond

// newProcess asks the collector of the library once.
func newProcess() prometheus.Collector {
	usual := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	once := prometheus.NewRegistry()
	once.MustRegister(usual)
	families, err := once.Gather()
	if err != nil {
		return usual
	}
	p := &process{page: float64(os.Getpagesize())}
	for _, f := range families {
		desc := prometheus.NewDesc(f.GetName(), f.GetHelp(), nil, nil)
		switch f.GetName() {
		case "process_cpu_seconds_total":
			p.cpu = desc
		case "process_open_fds":
			p.fds = desc
		case "process_virtual_memory_bytes":
			p.virtual = desc
		case "process_resident_memory_bytes":
			p.resident = desc
		case "process_start_time_seconds":
			p.start = desc
			p.began = time.Now()
			p.began = p.began.Add(time.UnixMilli(int64(math.Round(f.GetMetric()[0].GetGauge().GetValue() * 1e3))).Sub(p.began))
		case "process_max_fds", "process_virtual_memory_max_bytes":
			p.fixed = append(p.fixed, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, f.GetMetric()[0].GetGauge().GetValue()))
		}
	}
	if p.cpu == nil || p.fds == nil || p.virtual == nil || p.resident == nil { // no /proc
		return usual
	}
	return p
}

// Describe is for the registry.
func (p *process) Describe(to chan<- *prometheus.Desc) {
	for _, m := range p.fixed {
		to <- m.Desc()
	}
	for _, d := range []*prometheus.Desc{p.cpu, p.fds, p.virtual, p.resident, p.start} {
		if d != nil {
			to <- d
		}
	}
}

// Collect leaves out what cannot be read, as the library's collector does.
func (p *process) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	for _, m := range p.fixed {
		to <- m
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err == nil {
		seconds := float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
		to <- prometheus.MustNewConstMetric(p.cpu, prometheus.CounterValue, seconds)
	}
	if pages, err := os.ReadFile("/proc/self/statm"); err == nil {
		fields := bytes.Fields(pages)
		for i, d := range []*prometheus.Desc{p.virtual, p.resident} {
			if i >= len(fields) {
				break
			}
			if n, err := strconv.ParseFloat(string(fields[i]), 64); err == nil {
				gauge(d, n*p.page)
			}
		}
	}
	if n, err := openFiles(); err == nil {
		gauge(p.fds, float64(n))
	}
	if p.start != nil {
		now := time.Now()
		// Rounded to the kernel's ticks: a value that changed a little would look like a restart.
		gauge(p.start, float64(now.Add(-now.Sub(p.began)).Round(kernelTick).UnixMilli())/1e3)
	}
}

// openFiles counts the descriptors. Since Linux 6.2 that needs none, so that it works when all are in use.
func openFiles() (int, error) {
	if dir, err := os.Stat("/proc/self/fd"); err == nil && dir.Size() > 0 {
		return int(dir.Size()), nil
	}
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	defer func() { _ = dir.Close() }() // only read
	names, err := dir.Readdirnames(-1)
	return len(names) - 1, err // without dir itself
}
