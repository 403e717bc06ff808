package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/report"
)

const (
	// certificateInterval is the pause between two reads of all certificates.
	certificateInterval = time.Minute
	// expiresSoon is how long before its expiry a certificate causes a warning.
	expiresSoon = 30 * 24 * time.Hour
)

// usedCertificate is a certificate that this sidecar may use, and its source.
type usedCertificate struct {
	use  string // in /status and as a label: a closed set
	name string // for people
	// lost describes the failure once the certificate has expired.
	lost string
	// source returns the file and its PEM content. An empty file: this sidecar does not use such a
	// certificate.
	source func(*App) (file string, content []byte, err error)
}

// usedCertificates returns all certificates, in the order of /status.
func usedCertificates() []usedCertificate {
	return []usedCertificate{
		{"etcd-client", "the client certificate for etcd", "etcd rejects this sidecar",
			fromFile(func(c Config) string { return c.Etcd.CertFile })},
		{"etcd-ca", "the CA of the etcd servers", "this sidecar rejects the etcd servers",
			fromFile(func(c Config) string { return c.Etcd.CAFile })},
		{"kubeconfig-client", "the client certificate of the kubeconfig", "kube-apiserver rejects this sidecar", func(a *App) (string, []byte, error) {
			cfg := a.kubeconfig.config.Get()
			return a.kubeconfig.origin(cfg.CertFile, cfg.CertData), cfg.CertData, nil
		}},
		{"kubeconfig-ca", "the CA of the kubeconfig", "this sidecar rejects kube-apiserver", func(a *App) (string, []byte, error) {
			cfg := a.kubeconfig.config.Get()
			return a.kubeconfig.origin(cfg.CAFile, cfg.CAData), cfg.CAData, nil
		}},
		{"serving", "the serving certificate", "clients reject this sidecar",
			fromFile(func(c Config) string { return c.TLS.CertFile })},
		{"client-ca", "the CA of the HTTP API's clients", "this sidecar rejects its clients",
			fromFile(func(c Config) string { return c.TLS.ClientCAFile })},
	}
}

// fromFile returns a source that reads the file that a flag names.
func fromFile(flag func(Config) string) func(*App) (string, []byte, error) {
	return func(a *App) (string, []byte, error) {
		file := flag(a.cfg)
		if file == "" {
			return "", nil, nil
		}
		content, err := os.ReadFile(file)
		return file, content, err
	}
}

// origin returns the file that a part of the kubeconfig was read from: one that the kubeconfig
// names, or the kubeconfig itself. Empty: the part is missing.
func (k *kubeconfig) origin(file string, content []byte) string {
	if len(content) == 0 {
		return ""
	}
	return cmp.Or(file, k.path)
}

// watchCertificates reads all certificates every certificateInterval and after changes, until ctx
// ends.
func (a *App) watchCertificates(ctx context.Context) error {
	tick := time.NewTicker(certificateInterval)
	defer tick.Stop()
	for {
		_, kubeconfigChanged := a.kubeconfig.config.Load()
		_, clusterChanged := a.cluster.Status().Load()
		a.readCertificates(time.Now())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-kubeconfigChanged:
		case <-clusterChanged: // a node that creates its cluster has just got a certificate
		case <-tick.C:
		}
	}
}

// readCertificates publishes all certificates, and the warnings about them. It logs
// each new warning.
func (a *App) readCertificates(now time.Time) {
	var list []report.Certificate
	var warnings []string
	for _, used := range usedCertificates() {
		cert, warning := used.read(a, now)
		if cert.File == "" {
			continue
		}
		list = append(list, cert)
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	before := a.certificateWarnings.Get()
	for _, w := range warnings {
		if !slices.Contains(before, w) {
			a.log.Warn("certificate", "problem", w)
		}
	}
	if !slices.Equal(list, a.certificates.Get()) || !slices.Equal(warnings, before) {
		a.certificates.Set(list)
		a.certificateWarnings.Set(warnings)
	}
}

// read returns the certificate and its problem; empty: none.
func (u usedCertificate) read(a *App, now time.Time) (report.Certificate, string) {
	file, content, err := u.source(a)
	if errors.Is(err, fs.ErrNotExist) && a.notYetIssued(file) {
		file = ""
	}
	out := report.Certificate{Use: u.use, File: file}
	if file == "" {
		return out, ""
	}
	expired, expires := "replace the file, it is read again by itself", "replace the file before that, it is read again by itself"
	if a.issues(file) {
		expired = "this sidecar renews it by itself, and has failed: see worker=certificates in its log"
		expires = expired
	}
	var first *x509.Certificate
	if err == nil {
		first, err = firstToExpire(content)
	}
	if err != nil {
		out.Problem = err.Error()
		return out, fmt.Sprintf("%s in %q cannot be read: %v; repair the file, it is read again by itself", u.name, file, err)
	}
	out.Expires = report.At(first.NotAfter)
	at := first.NotAfter.UTC().Format("2006-01-02 15:04 UTC")
	switch {
	case !now.Before(first.NotAfter):
		return out, fmt.Sprintf("%s (%s) in %q has expired on %s: %s; %s", u.name, first.Subject, file, at, u.lost, expired)
	case first.NotAfter.Sub(now) < soon(first):
		return out, fmt.Sprintf("%s (%s) in %q expires on %s: %s", u.name, first.Subject, file, at, expires)
	}
	return out, ""
}

// issues reports whether this sidecar issues and renews a certificate itself: one of an etcd
// cluster that the sidecars run.
func (a *App) issues(file string) bool {
	return a.cfg.Embedded != nil && strings.HasPrefix(file, a.cfg.Embedded.DataDir+string(filepath.Separator))
}

// notYetIssued reports whether a certificate may be missing, because this sidecar has not reached
// its cluster yet.
func (a *App) notYetIssued(file string) bool {
	return a.issues(file) && a.cluster.Status().Get().State != cluster.Running
}

// soon returns how long before its expiry a certificate causes a warning. A certificate that is
// valid for less than expiresSoon in all is renewed by a program: with expiresSoon it would cause a
// warning all its life.
func soon(c *x509.Certificate) time.Duration {
	if life := c.NotAfter.Sub(c.NotBefore); life < expiresSoon {
		return life / 3
	}
	return expiresSoon
}

// firstToExpire returns the first certificate to expire in PEM content. If it is a CA that is no
// longer used, users have to remove it from the file.
func firstToExpire(content []byte) (*x509.Certificate, error) {
	var first *x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if first == nil || c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	if first == nil {
		return nil, errors.New("no PEM certificate")
	}
	return first, nil
}

// expiryMetric shows when each certificate expires.
type expiryMetric struct {
	app  *App
	desc *prometheus.Desc
}

func newExpiryMetric(a *App) expiryMetric {
	return expiryMetric{a, prometheus.NewDesc("lockstep_certificate_expiry_timestamp_seconds",
		"When a certificate that this sidecar uses expires; of several in a file, the first. 0: it uses no such certificate, or cannot read it. "+
			"Replace the file before that: it is read again by itself.",
		[]string{"certificate", "file"}, nil)}
}

// Describe implements prometheus.Collector.
func (m expiryMetric) Describe(c chan<- *prometheus.Desc) { c <- m.desc }

// Collect implements prometheus.Collector.
func (m expiryMetric) Collect(c chan<- prometheus.Metric) {
	now := m.app.certificates.Get()
	for _, used := range usedCertificates() {
		var cert report.Certificate
		if i := slices.IndexFunc(now, func(c report.Certificate) bool { return c.Use == used.use }); i >= 0 {
			cert = now[i]
		}
		value := 0.0
		if !cert.Expires.IsZero() {
			value = float64(cert.Expires.Unix())
		}
		c <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, value, used.use, cert.File)
	}
}
