package apiserver

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/lockstep-dev/lockstep/internal/shell"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// Unusable explains why this node's kube-apiserver cannot be used, with a remedy. t is the trouble with
// the newest request, and failed why the last pass failed; both are zero if nothing failed.
func (f *Follower) Unusable(t report.Trouble, failed string) protocol.Eligibility {
	cfg, path := f.cfg.Kubeconfig.Config().Get(), f.cfg.Kubeconfig.Path()
	out := protocol.Eligibility{Reason: protocol.APIUnreachable}
	switch {
	case t == (report.Trouble{}) && failed != "":
		// The newest request worked, so the kube-apiserver answers, and a pass fails nevertheless: for
		// example, because a policy denies a write.
		out.Message = fmt.Sprintf("with its kube-apiserver %s no pass over the objects could be made for --leader-yield-after (%s): %s",
			cfg.Host, f.cfg.YieldAfter, failed)
	case t == (report.Trouble{}):
		// No request ended since the last one that worked.
		out.Message = fmt.Sprintf("its kube-apiserver %s has not answered for --leader-yield-after (%s); check it, and the server in kubeconfig %s",
			cfg.Host, f.cfg.YieldAfter, path)
	case t.Refused:
		out.Reason, out.Message = protocol.APIRefused, refused(t, cfg, path, time.Now())
	default:
		out.Message = unusable(t, cfg.Host, path)
	}
	if t.Refused && t.Code == http.StatusForbidden {
		out.Message += "; give that user the rights: sidecar bundle rights " + shell.Quote(f.cfg.Bundle) +
			" --all | kubectl apply -f -; they are for the group lockstep:sidecars, in which that user must be (docs/operations.md#rights)"
	}
	return out
}

// userInRefusal finds the user in the message of a 403.
var userInRefusal = regexp.MustCompile(`User "([^"]*)"`)

// refused explains the statuses 401 and 403.
func refused(t report.Trouble, cfg *rest.Config, path string, now time.Time) string {
	if t.Code == http.StatusForbidden {
		who := "the user of kubeconfig " + path
		if user := userInRefusal.FindStringSubmatch(t.Detail); user != nil {
			who = fmt.Sprintf("user %q", user[1])
		}
		return fmt.Sprintf("its kube-apiserver %s refuses %s: %s", cfg.Host, who, t.Detail)
	}
	return fmt.Sprintf("its kube-apiserver %s rejects the credentials of kubeconfig %s (%d %s%s); renew them",
		cfg.Host, path, t.Code, http.StatusText(t.Code), certificateNote(cfg, now))
}

// certificateNote names the user of the client certificate, and its expiry if it has expired.
func certificateNote(cfg *rest.Config, now time.Time) string {
	data := cfg.CertData
	if len(data) == 0 && cfg.CertFile != "" {
		data, _ = os.ReadFile(cfg.CertFile) // without it, the note is empty
	}
	all, err := cert.ParseCertsPEM(data)
	if err != nil {
		return ""
	}
	note := fmt.Sprintf("; the client certificate is of %q", all[0].Subject.CommonName)
	if now.After(all[0].NotAfter) {
		note += ", and expired at " + all[0].NotAfter.UTC().Format(time.RFC3339)
	}
	return note
}

// unusable explains an API that does not answer, or answers with another error.
func unusable(t report.Trouble, server, path string) string {
	if t.Code != 0 {
		return fmt.Sprintf("its kube-apiserver answers %s with %d %s: %s; check its log", t.Request, t.Code, http.StatusText(t.Code), t.Detail)
	}
	remedy := "check that kube-apiserver, and the server in kubeconfig " + path
	if strings.Contains(t.Detail, "x509:") {
		remedy = "check the certificate authority in kubeconfig " + path + ", and the certificate of that server"
	}
	return fmt.Sprintf("its kube-apiserver %s cannot be used: %s: %s; %s", server, t.Request, t.Detail, remedy)
}
