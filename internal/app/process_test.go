package app

import (
	"math"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// TestProcess: it has the metrics of the library's collector, with their types, texts and values.
func TestProcess(t *testing.T) {
	var files []*os.File
	for range 9 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	gathered := func(c prometheus.Collector) map[string]float64 {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(c)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			out[f.GetName()+" "+f.GetType().String()+": "+f.GetHelp()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return out
	}
	own := newProcess()
	want, got := gathered(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})), gathered(own)
	for name, value := range want {
		if name[:len("process_network")] == "process_network" {
			continue // of the whole machine
		}
		if v, found := got[name]; !found || math.Abs(v-value) > 2+0.2*value {
			t.Errorf("%s: got %v, %v, want about %v", name, v, found, value)
		}
	}
	for _, f := range files {
		_ = f.Close()
	}
	const open = "process_open_fds GAUGE: Number of open file descriptors."
	if now := gathered(own)[open]; now != got[open]-9 {
		t.Errorf("%v files are open after 9 of %v were closed", now, got[open])
	}
	if len(got) != len(want)-2 {
		t.Errorf("got %v, want %v", got, want)
	}
}
