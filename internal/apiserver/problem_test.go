package apiserver

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/test/selfsigned"
)

// Each message names server and user, what happened, and what to do.
func TestRefused(t *testing.T) {
	expired, _ := selfsigned.PEM(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "weak"}, NotBefore: noon.Add(-2 * day), NotAfter: noon.Add(-day),
	})
	cfg := &rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CertData: []byte(expired)}}
	forbidden := report.Trouble{Code: 403, Refused: true, Detail: `configmaps "lockstep" is forbidden: User "weak" cannot get resource`}
	want := `its kube-apiserver https://10.0.0.1:6443 refuses user "weak": configmaps "lockstep" is forbidden: User "weak" cannot get resource`
	if got := refused(forbidden, cfg, "/k", noon); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	unauthorized := report.Trouble{Code: 401, Refused: true, Detail: "Unauthorized"}
	want = `its kube-apiserver https://10.0.0.1:6443 rejects the credentials of kubeconfig /k ` +
		`(401 Unauthorized; the client certificate is of "weak", and expired at 2026-11-21T12:00:00Z); renew them`
	if got := refused(unauthorized, cfg, "/k", noon); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, data := range []string{"", "no PEM", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"} {
		if note := certificateNote(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte(data)}}, noon); note != "" {
			t.Errorf("%q: got %q", data, note)
		}
	}
}

func TestUnusable(t *testing.T) {
	for want, trouble := range map[string]report.Trouble{
		"its kube-apiserver S cannot be used: GET S/a: no answer in 5s; check that kube-apiserver, and the server in kubeconfig /k": {
			Request: "GET S/a", Detail: "no answer in 5s"},
		"its kube-apiserver S cannot be used: GET S/a: x509: unknown; check the certificate authority in kubeconfig /k, and the certificate of that server": {
			Request: "GET S/a", Detail: x509.UnknownAuthorityError{}.Error()[:6] + "unknown"},
		"its kube-apiserver answers GET S/a with 503 Service Unavailable: etcd failed; check its log": {
			Request: "GET S/a", Code: 503, Detail: "etcd failed"},
	} {
		if got := unusable(trouble, "S", "/k"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

const day = 24 * time.Hour

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
