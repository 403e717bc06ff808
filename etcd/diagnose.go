package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
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
	Full        string // its database is full; empty: the commands of etcdctl
}

// adviceElsewhere is for servers that run elsewhere.
var adviceElsewhere = Advice{
	Closed:      "check that etcd runs there, and --etcd-servers",
	Silent:      "check whether etcd there hangs, and the network to it",
	Authority:   "check --etcd-cafile",
	Certificate: "check --etcd-certfile: the server rejects it",
}

// diagnoseTimeout bounds the question to one server.
const diagnoseTimeout = 2 * time.Second

// Diagnose asks each server for its health and returns a sentence about the fault of each
// server that is not healthy, in the order of the endpoints. It is for people: a closed port, a
// server that hangs, a certificate that is rejected and a store that is full have different
// texts. If all servers are healthy, it also says whether they deny requests below the prefix.
func (c *Client) Diagnose(ctx context.Context) []string {
	endpoints := c.Endpoints()
	found := make([]string, len(endpoints))
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() { found[i] = c.diagnoseServer(ctx, endpoint) })
	}
	all.Wait()
	found = slices.DeleteFunc(found, func(s string) bool { return s == "" })
	if contact := c.contact.Get(); len(found) == 0 && contact.Connected && contact.Refused > 0 {
		if problem := c.denied(ctx); problem != "" {
			found = append(found, problem)
		}
	}
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

// diagnoseServer returns the fault of one server; empty: none.
func (c *Client) diagnoseServer(ctx context.Context, endpoint string) string {
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	config, err := c.tls.current()
	if err != nil {
		return endpoint + ": " + err.Error()
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, healthURL(endpoint), nil)
	if err != nil {
		return fmt.Sprintf("%s: %v", endpoint, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return endpoint + ": " + c.advice.about(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealth))
	if err != nil {
		return endpoint + ": " + c.advice.about(err)
	}
	var health struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(body, &health) != nil || health.Health != "false" {
		return "" // healthy, or a server that does not answer this question
	}
	return endpoint + " is not healthy: " + c.unhealthy(health.Reason, endpoint)
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
	return fmt.Sprintf("%s compaction %d; %s defrag; %s alarm disarm", etcdctl, c.contact.Get().Revision, etcdctl, etcdctl)
}

// maxHealth is how many bytes of an answer are read.
const maxHealth = 4096

func healthURL(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	return strings.TrimSuffix(endpoint, "/") + "/health"
}

// about says why a server could not be asked, with the remedy.
func (a Advice) about(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer in %s; %s", diagnoseTimeout, a.Silent)
	}
	if request, is := errors.AsType[*url.Error](err); is {
		err = request.Err
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return err.Error() + "; " + a.Authority
	}
	op, is := errors.AsType[*net.OpError](err)
	switch {
	case is && op.Op == "remote error":
		return op.Err.Error() + "; " + a.Certificate
	case is:
		return strings.TrimPrefix(op.Err.Error(), "connect: ") + "; " + a.Closed
	}
	return err.Error()
}
