package certificates

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
	"github.com/lockstep-dev/lockstep/report"
)

// interval is the pause between two reads of all certificates.
const interval = time.Minute

// Config configures a Watch. All fields are required, unless their comments say otherwise.
type Config struct {
	EtcdCert, EtcdCA  string // files; empty: not used
	Serving, ClientCA string // files; empty: not used
	Kubeconfig        *kubeconfig.File
	// Issues reports whether this sidecar issues and renews the certificate in a file by itself.
	Issues func(file string) bool
	// Joined reports whether this sidecar reached its cluster. Before that, the certificates that it
	// issues may be missing. The channel is closed with each possible change.
	Joined func() (joined bool, changed <-chan struct{})
	Log    *slog.Logger
}

// Watch follows the certificates that this sidecar uses.
type Watch struct {
	cfg      Config
	list     *event.Value[[]report.Certificate]
	warnings *event.Value[[]string]
}

// New reads all certificates once.
func New(cfg Config) *Watch {
	w := &Watch{cfg: cfg, list: event.New[[]report.Certificate](nil), warnings: event.New[[]string](nil)}
	w.read(time.Now())
	return w
}

// List follows all certificates, in the order of /status.
func (w *Watch) List() *event.Value[[]report.Certificate] { return w.list }

// Warnings follows the problems of the certificates, for people.
func (w *Watch) Warnings() *event.Value[[]string] { return w.warnings }

// Uses returns the uses of certificates, in the order of /status.
func Uses() []string {
	var out []string
	for _, u := range usedCertificates() {
		out = append(out, u.use)
	}
	return out
}

// usedCertificate is a certificate that this sidecar may use, and its source.
type usedCertificate struct {
	use  string // in /status and as a label: a closed set
	name string // for people
	// lost describes the failure after the certificate expires.
	lost string
	// source returns the file and its PEM content. An empty file: this sidecar does not use such a
	// certificate.
	source func(Config) (file string, content []byte, err error)
}

// usedCertificates returns all certificates, in the order of /status.
func usedCertificates() []usedCertificate {
	return []usedCertificate{
		{"etcd-client", "the client certificate for etcd", "etcd rejects this sidecar",
			fromFile(func(c Config) string { return c.EtcdCert })},
		{"etcd-ca", "the CA of the etcd servers", "this sidecar rejects the etcd servers",
			fromFile(func(c Config) string { return c.EtcdCA })},
		{"kubeconfig-client", "the client certificate of the kubeconfig", "kube-apiserver rejects this sidecar", func(c Config) (string, []byte, error) {
			cfg := c.Kubeconfig.Config().Get()
			return c.Kubeconfig.Origin(cfg.CertFile, cfg.CertData), cfg.CertData, nil
		}},
		{"kubeconfig-ca", "the CA of the kubeconfig", "this sidecar rejects kube-apiserver", func(c Config) (string, []byte, error) {
			cfg := c.Kubeconfig.Config().Get()
			return c.Kubeconfig.Origin(cfg.CAFile, cfg.CAData), cfg.CAData, nil
		}},
		{"serving", "the serving certificate", "clients reject this sidecar",
			fromFile(func(c Config) string { return c.Serving })},
		{"client-ca", "the CA of the HTTP API's clients", "this sidecar rejects its clients",
			fromFile(func(c Config) string { return c.ClientCA })},
	}
}

// fromFile returns a source that reads the file in a field.
func fromFile(flag func(Config) string) func(Config) (string, []byte, error) {
	return func(c Config) (string, []byte, error) {
		file := flag(c)
		if file == "" {
			return "", nil, nil
		}
		content, err := os.ReadFile(file)
		return file, content, err
	}
}

// Run reads all certificates every interval and after changes, until ctx
// ends.
func (w *Watch) Run(ctx context.Context) error {
	for {
		_, kubeconfigChanged := w.cfg.Kubeconfig.Config().Load()
		_, joinedChanged := w.cfg.Joined()
		w.read(time.Now())
		if !event.WaitFor(ctx, interval, kubeconfigChanged, joinedChanged) { // a node that creates its cluster gets a certificate
			return ctx.Err()
		}
	}
}

// read publishes all certificates, and the warnings about them. It logs
// each new warning.
func (w *Watch) read(now time.Time) {
	var list []report.Certificate
	var warnings []string
	for _, used := range usedCertificates() {
		cert, warning := used.read(w.cfg, now)
		if cert.File == "" {
			continue
		}
		list = append(list, cert)
		if warning != "" {
			warnings = append(warnings, warning)
		}
	}
	before := w.warnings.Get()
	for _, text := range warnings {
		if !slices.Contains(before, text) {
			w.cfg.Log.Warn("certificate", "problem", text)
		}
	}
	if !slices.Equal(list, w.list.Get()) || !slices.Equal(warnings, before) {
		w.list.Set(list)
		w.warnings.Set(warnings)
	}
}

// read returns the certificate and its problem; empty: none.
func (u usedCertificate) read(c Config, now time.Time) (report.Certificate, string) {
	file, content, err := u.source(c)
	joined, _ := c.Joined()
	if errors.Is(err, fs.ErrNotExist) && !joined && c.Issues(file) { // it is not issued yet
		file = ""
	}
	out := report.Certificate{Use: u.use, File: file}
	if file == "" {
		return out, ""
	}
	expired, expires := "replace the file, it is read again by itself", "replace the file before that, it is read again by itself"
	if c.Issues(file) {
		expired = "this sidecar renews it by itself, and has failed: see worker=certificates in its log"
		expires = expired
	}
	var first *x509.Certificate
	if err == nil {
		first, err = FirstToExpire(content)
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
	case first.NotAfter.Sub(now) < Soon(first):
		return out, fmt.Sprintf("%s (%s) in %q expires on %s: %s", u.name, first.Subject, file, at, expires)
	}
	return out, ""
}
