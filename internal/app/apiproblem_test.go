package app

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
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

func TestEtcdFlags(t *testing.T) {
	for want, cfg := range map[string]etcd.Config{
		" --etcd-servers=http://a:1,http://b:2": {Endpoints: []string{"http://a:1", "http://b:2"}, Prefix: "/lockstep/"},
		" --etcd-servers=https://a:1 --etcd-prefix=/other --etcd-cafile='/my ca' --etcd-certfile=/c --etcd-keyfile='/it'\\''s'": {
			Endpoints: []string{"https://a:1"}, Prefix: "/other", CAFile: "/my ca", CertFile: "/c", KeyFile: "/it's"},
	} {
		if got := EtcdFlags(cfg, ""); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	member := etcd.Config{Endpoints: []string{"https://a:1"}, Prefix: "/lockstep", CAFile: "/my dir/pki/ca.crt", CertFile: "/c", KeyFile: "/k"}
	if got, want := EtcdFlags(member, "/my dir"), " --data-dir='/my dir'"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A problem keeps its time for as long as it is the same.
func TestKeepTimes(t *testing.T) {
	before := []protocol.Warning{{Reason: protocol.NoGate, Subject: "a", Message: "m", Since: noon}}
	now := []protocol.Warning{{Reason: protocol.NoGate, Subject: "b", Message: "m"}, {Reason: protocol.NoGate, Subject: "a", Message: "m"}, {Message: "own", Since: noon.Add(-time.Hour)}}
	keepTimes(now, before, noon.Add(time.Minute))
	for i, want := range []time.Time{noon.Add(time.Minute), noon, noon.Add(-time.Hour)} {
		if !now[i].Since.Equal(want) {
			t.Errorf("%s: got %s, want %s", now[i].Subject, now[i].Since, want)
		}
	}
}

func TestWarningsOfALeader(t *testing.T) {
	if got := heldMessage(protocol.Leading, report.Reconcile{PruneHeld: "why", Objects: report.Objects{Owed: 1}}); got != "1 object that the bundle dropped is not removed: why" {
		t.Errorf("got %q", got)
	}
	if got := heldMessage(protocol.Campaigning, report.Reconcile{PruneHeld: "why", Objects: report.Objects{Owed: 1}}); got != "" {
		t.Errorf("a node that does not lead: got %q", got)
	}
	f := protocol.Fleet{Revision: 1, Records: []*protocol.Record{
		{ID: "a", Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}}},
		{ID: "b", Problem: "garbage"},
	}}
	view := protocol.StatusView{}
	if got := fleetWarnings(view, f, "a"); len(got) != 2 || got[0].Reason != protocol.RecordCorrupt || !strings.Contains(got[0].Message, "sidecar node remove b") {
		t.Errorf("seen by a: got %+v", got)
	}
	if got := fleetWarnings(view, f, "c"); len(got) != 3 || got[2].Reason != protocol.NoGate || got[2].Subject != "a" {
		t.Errorf("seen by c: got %+v", got)
	}
}
