package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// A server says of each certificate alone that it is bad. This client knows whether its own has expired.
func TestExpired(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	alert := &net.OpError{Op: remoteError, Err: tls.AlertError(42)}
	with := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	for name, tc := range map[string]struct {
		err    error
		config *tls.Config
		now    time.Time
		want   string
	}{
		"expired":          {alert, with, end.Add(time.Second), "expired at 2026-03-04T05:06:07Z"},
		"valid":            {alert, with, end, ""},
		"no alert":         {errors.New("refused"), with, end.Add(time.Second), ""},
		"no certificate":   {alert, &tls.Config{}, end.Add(time.Second), ""},
		"no configuration": {alert, nil, end.Add(time.Second), ""},
	} {
		if got := expired(tc.err, tc.config, tc.now); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
