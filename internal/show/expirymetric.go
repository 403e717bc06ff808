package show

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/certificates"
	"github.com/lockstep-dev/lockstep/report"
)

// expiryMetric shows when each certificate expires.
type expiryMetric struct {
	show *Show
	desc *prometheus.Desc
}

func newExpiryMetric(s *Show) expiryMetric {
	return expiryMetric{s, prometheus.NewDesc("lockstep_certificate_expiry_timestamp_seconds",
		"When a certificate that this sidecar uses expires; 0: it uses no such certificate, or cannot read it. "+
			"Replace the file before that.",
		[]string{"certificate", "file"}, nil)}
}

// Describe implements prometheus.Collector.
func (m expiryMetric) Describe(c chan<- *prometheus.Desc) { c <- m.desc }

// Collect implements prometheus.Collector.
func (m expiryMetric) Collect(c chan<- prometheus.Metric) {
	now := m.show.Certificates.Get()
	for _, use := range certificates.Uses() {
		var cert report.Certificate
		if i := slices.IndexFunc(now, func(c report.Certificate) bool { return c.Use == use }); i >= 0 {
			cert = now[i]
		}
		value := 0.0
		if !cert.Expires.IsZero() {
			value = float64(cert.Expires.Unix())
		}
		c <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, value, use, cert.File)
	}
}
