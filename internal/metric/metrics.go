// Package metric makes the metrics of other packages. Each metric has a help text that says what to do about it. The
// series of known labels exist from the start, since alerts use them. It owns no metric, and starts no goroutine.
package metric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Set makes metrics, and registers each.
type Set struct {
	factory promauto.Factory
	reg     prometheus.Registerer // nil: nothing is registered
}

// In returns a Set that registers its metrics with reg. Nil: it registers none, and they count all the same.
func In(reg prometheus.Registerer) Set { return Set{promauto.With(reg), reg} }

// Gauge makes a gauge of value 0.
func (s Set) Gauge(name, help string) prometheus.Gauge {
	return s.factory.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Counter makes a counter.
func (s Set) Counter(name, help string) prometheus.Counter {
	return s.factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// GaugeFunc makes a gauge whose value is computed at each scrape.
func (s Set) GaugeFunc(name, help string, value func() float64) {
	s.factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// CounterFunc makes a counter whose value is computed at each scrape.
func (s Set) CounterFunc(name, help string, value func() float64) {
	s.factory.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
}

// Series is what adds a series of a metric at a scrape.
type Series = func(value float64, labels ...string)

// GaugeSeries makes a gauge whose series are computed at each scrape.
func (s Set) GaugeSeries(name, help string, labels []string, collect func(Series)) {
	s.series(prometheus.GaugeValue, prometheus.NewDesc(name, help, labels, nil), collect)
}

// CounterSeries makes a counter whose series are computed at each scrape.
func (s Set) CounterSeries(name, help string, labels []string, collect func(Series)) {
	s.series(prometheus.CounterValue, prometheus.NewDesc(name, help, labels, nil), collect)
}

func (s Set) series(kind prometheus.ValueType, desc *prometheus.Desc, collect func(Series)) {
	if s.reg != nil {
		s.reg.MustRegister(computed{kind, desc, collect})
	}
}

// computed is a metric whose series are computed at each scrape.
type computed struct {
	kind    prometheus.ValueType
	desc    *prometheus.Desc
	collect func(Series)
}

// Describe implements prometheus.Collector.
func (m computed) Describe(c chan<- *prometheus.Desc) { c <- m.desc }

// Collect implements prometheus.Collector.
func (m computed) Collect(c chan<- prometheus.Metric) {
	m.collect(func(value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	})
}

// CounterVec makes a counter for each combination of labels that is counted.
func (s Set) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return s.factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Histogram makes a histogram with buckets, in seconds.
func (s Set) Histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return s.factory.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// Gauges makes a gauge for each value of a label.
func Gauges[V ~string](s Set, name, help, label string, values ...V) *prometheus.GaugeVec {
	out := s.factory.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	for _, v := range values {
		out.WithLabelValues(string(v))
	}
	return out
}

// Counters makes a counter for each value of a label.
func Counters[V ~string](s Set, name, help, label string, values ...V) *prometheus.CounterVec {
	out := s.CounterVec(name, help, label)
	for _, v := range values {
		out.WithLabelValues(string(v))
	}
	return out
}

// Histograms makes a histogram for each value of a label, with buckets in seconds.
func Histograms[V ~string](s Set, name, help, label string, values []V, buckets ...float64) *prometheus.HistogramVec {
	out := s.factory.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label})
	for _, v := range values {
		out.WithLabelValues(string(v))
	}
	return out
}

// Choose sets the gauge of one value to 1, and those of all others to 0.
func Choose[V ~string](gauges *prometheus.GaugeVec, values []V, chosen V) {
	for _, v := range values {
		gauges.WithLabelValues(string(v)).Set(0)
	}
	gauges.WithLabelValues(string(chosen)).Set(1)
}

// Bool is the value of a gauge for a condition: 1 or 0.
func Bool(is bool) float64 { return map[bool]float64{true: 1}[is] }

// Timestamp is the value of a gauge for a time, in seconds; 0 for the zero time.
func Timestamp(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1e3
}
