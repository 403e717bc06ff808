package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Advice contains the remedy for each fault of a server that cannot be used.
type Advice struct {
	Closed      string // no program listens there
	Silent      string // a program listens, and does not answer
	Authority   string // its certificate is not of this client's authority
	Certificate string // it rejects this client's certificate
	TLS         string // it speaks TLS, and its URL begins with http
	Plain       string // it does not speak TLS, and its URL begins with https
	Full        string // its database is full; empty: the commands of etcdctl
}

// adviceElsewhere is for servers that run elsewhere.
var adviceElsewhere = Advice{
	Closed:      "check that etcd runs there, and --etcd-servers",
	Silent:      "check whether etcd there hangs, and the network to it",
	Authority:   "check --etcd-cafile",
	Certificate: "check --etcd-certfile: the server rejects it",
	TLS:         "write https:// in --etcd-servers, and set --etcd-cafile, --etcd-certfile and --etcd-keyfile",
	Plain:       "write http:// in --etcd-servers, or give that server a certificate",
}

// diagnoseTimeout bounds the question to one server.
const diagnoseTimeout = 2 * time.Second

// Diagnose asks each server for its health and returns a sentence about the fault of each
// server that is not healthy, in the order of the endpoints. It is for people: a closed port, a
// server that hangs, a certificate that is rejected and a store that is full have different
// texts. If all servers are healthy, it also says whether they deny requests below the prefix.
func (c *Client) Diagnose(ctx context.Context) []string {
	var found []string
	for _, f := range c.askServers(ctx) {
		if f.text != "" {
			found = append(found, f.text)
		}
	}
	if contact := c.contact.Get(); len(found) == 0 && contact.Connected && contact.Refused > 0 {
		if problem := c.denied(ctx); problem != "" {
			found = append(found, problem)
		}
	}
	return found
}

// Unusable returns the fault of each server, if none of them can be used with this client's
// configuration, however long it waits: it speaks TLS or does not, or one of the certificates
// is rejected.
func (c *Client) Unusable(ctx context.Context) []string {
	var found []string
	for _, f := range c.askServers(ctx) {
		if !f.stays {
			return nil
		}
		found = append(found, f.text)
	}
	return found
}

// serverFault is the fault of a server; empty: none.
type serverFault struct {
	text  string
	stays bool // until a user corrects the flags or the certificates
}

// askServers returns the fault of each server, in the order of the endpoints.
func (c *Client) askServers(ctx context.Context) []serverFault {
	endpoints := c.Endpoints()
	found := make([]serverFault, len(endpoints))
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() { found[i] = c.diagnoseServer(ctx, endpoint) })
	}
	all.Wait()
	return found
}

// denied returns why etcd's authentication denies this client to read and write below the
// prefix; empty: it does not. It writes nothing: its condition never holds, and etcd requires
// the rights before it evaluates that. Contact does not change.
func (c *Client) denied(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	_, err := c.link().client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(c.prefix), "<", 0)).Then(clientv3.OpPut(c.prefix, "")).
		Else(clientv3.OpGet(c.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
	switch err = rpctypes.Error(err); {
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Sprintf("permission denied: this user of etcd may not read and write below %s; "+
			"type: etcdctl role grant-permission ROLE readwrite --prefix %[1]s", c.prefix)
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return "etcd has authentication, and no client certificate has the name of a user: check --etcd-certfile"
	}
	return ""
}

// diagnoseServer returns the fault of one server.
func (c *Client) diagnoseServer(ctx context.Context, endpoint string) serverFault {
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	config, err := c.tls.current()
	if err != nil {
		return serverFault{text: endpoint + ": " + err.Error()}
	}
	reason, err := askHealth(ctx, endpoint, config)
	switch {
	case err != nil && strings.HasPrefix(healthURL(endpoint), "http:") && speaksTLS(ctx, endpoint):
		return serverFault{endpoint + ": the server there speaks TLS; " + c.advice.TLS, true}
	case err != nil && !errors.Is(err, errBadRequest):
		text, stays := c.advice.about(err)
		return serverFault{endpoint + ": " + text + expired(err, config, time.Now()), stays}
	case reason != "":
		return serverFault{text: endpoint + " is not healthy: " + c.unhealthy(reason, endpoint)}
	}
	return serverFault{}
}

// expired says that this client's certificate is rejected because it has expired: a server need not say why.
func expired(rejected error, config *tls.Config, now time.Time) string {
	op, is := errors.AsType[*net.OpError](rejected)
	if !is || op.Op != remoteError || config == nil || len(config.Certificates) == 0 {
		return ""
	}
	leaf, err := x509.ParseCertificate(config.Certificates[0].Certificate[0])
	if err != nil || !now.After(leaf.NotAfter) {
		return ""
	}
	return "; this client's certificate expired at " + leaf.NotAfter.UTC().Format(time.RFC3339)
}

// remoteError is what crypto/tls calls an alert that it received.
const remoteError = "remote error"

// errBadRequest is what servers with TLS may answer a client without.
var errBadRequest = errors.New(http.StatusText(http.StatusBadRequest))

// askHealth asks a server for its health. An empty reason means that it is healthy, or does not
// answer this question.
func askHealth(ctx context.Context, endpoint string, config *tls.Config) (reason string, err error) {
	resp, err := getPage(ctx, healthURL(endpoint), config)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusBadRequest {
		return "", errBadRequest
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	if err != nil {
		return "", err
	}
	var reported struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(body, &reported) != nil || reported.Health != "false" {
		return "", nil
	}
	return reported.Reason, nil
}

// speaksTLS reports whether the server of an http URL answers a TLS handshake. No request is sent.
func speaksTLS(ctx context.Context, endpoint string) bool {
	u, err := url.Parse(healthURL(endpoint))
	if err != nil {
		return false
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // nothing is read from it, or sent to it
	conn, err := dialer.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// unhealthy adds a remedy to the reason that a server gives.
func (c *Client) unhealthy(reason, endpoint string) string {
	if isNoSpace(reason) {
		return reason + ": its database is full, and it refuses writes; " + cmp.Or(c.advice.Full, "type: "+c.makeSpace(endpoint))
	}
	return reason
}

// makeSpace returns the command that makes a full server accept writes again. The revision is
// the newest that this client knows of: older ones are of no use to Lockstep.
// By default, etcdctl gives up after 5 s, in which a database of some hundred megabytes is not rewritten.
func (c *Client) makeSpace(endpoint string) string {
	words := []string{"etcdctl", "--endpoints=" + endpoint}
	if c.tls != nil {
		for _, flag := range []struct{ name, file string }{
			{"cacert", c.tls.cfg.CAFile}, {"cert", c.tls.cfg.CertFile}, {"key", c.tls.cfg.KeyFile},
		} {
			if flag.file != "" {
				words = append(words, "--"+flag.name+"="+flag.file)
			}
		}
	}
	etcdctl := strings.Join(words, " ")
	return fmt.Sprintf("%s compaction %d; %s defrag --command-timeout=5m; %s alarm disarm", etcdctl, c.contact.Get().Revision, etcdctl, etcdctl)
}

// maxHealth is how many bytes of an answer are read.
const maxHealth = 4096

func healthURL(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	return strings.TrimSuffix(endpoint, "/") + "/health"
}

// about says why a server could not be asked, with the remedy, and whether this stays so.
func (a Advice) about(err error) (text string, stays bool) {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer in %s; %s", diagnoseTimeout, a.Silent), false
	}
	if request, is := errors.AsType[*url.Error](err); is {
		err = request.Err
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return err.Error() + "; " + a.Authority, true
	}
	op, is := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server there does not speak TLS; " + a.Plain, true
	case is && op.Op == remoteError: // an alert of TLS, most of which are about the certificate
		return op.Err.Error() + "; " + a.Certificate, strings.Contains(op.Err.Error(), "certificate")
	case is:
		return strings.TrimPrefix(op.Err.Error(), "connect: ") + "; " + a.Closed, false
	}
	return err.Error(), false
}
