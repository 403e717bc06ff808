package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/report"
)

// Each message names server and user, what happened, and what to do.
func TestRefused(t *testing.T) {
	cfg := &rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{
		CertData: []byte(certificatePEM(t, "weak", noon.Add(-2*day), noon.Add(-day))),
	}}
	forbidden := report.Trouble{Code: 403, Refused: true, Detail: `configmaps "lockstep" is forbidden: User "weak" cannot get resource`}
	want := `its kube-apiserver https://10.0.0.1:6443 refuses user "weak": configmaps "lockstep" is forbidden: User "weak" cannot get resource; ` +
		"give that user the rights of docs/operations.md#rights"
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

// certificatePEM returns a certificate that is valid from begin to end.
func certificatePEM(t *testing.T, name string, begin, end time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: end}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}
