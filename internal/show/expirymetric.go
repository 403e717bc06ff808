package show

import (
	"slices"

	"github.com/lockstep-dev/lockstep/internal/certificates"
	"github.com/lockstep-dev/lockstep/internal/metric"
	"github.com/lockstep-dev/lockstep/report"
)

// registerExpiry adds a metric that shows when each certificate expires.
func (s *Show) registerExpiry(in metric.Set) {
	in.GaugeSeries("lockstep_certificate_expiry_timestamp_seconds",
		"When a certificate that this sidecar uses expires; 0: it uses no such certificate, or cannot read it. "+
			"Replace the file before that.",
		[]string{"certificate", "file"}, func(add metric.Series) {
			now := s.Certificates.Get()
			for _, use := range certificates.Uses() {
				var cert report.Certificate
				if i := slices.IndexFunc(now, func(c report.Certificate) bool { return c.Use == use }); i >= 0 {
					cert = now[i]
				}
				add(metric.Timestamp(cert.Expires.Time), use, cert.File)
			}
		})
}
