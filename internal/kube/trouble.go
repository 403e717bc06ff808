package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lockstep-dev/lockstep/report"
)

// Trouble returns why the API cannot be used now; zero: the newest answer shows that it can.
func (c *Client) Trouble() report.Trouble {
	if met := c.trouble.Load(); met != nil {
		return *met
	}
	return report.Trouble{}
}

// noteFailure remembers an answer that is an error, or that there was none. A
// request that the caller cancelled shows nothing of the API.
func (c *Client) noteFailure(caller context.Context, r Request, err error) {
	met := report.Trouble{Request: r.Verb + " " + c.server() + r.Path, Detail: detailOf(err)}
	if refusal, is := errors.AsType[*apierrors.StatusError](err); is {
		met.Code, met.Detail = int(refusal.ErrStatus.Code), refusal.ErrStatus.Message
		met.Refused = met.Code == http.StatusUnauthorized || met.Code == http.StatusForbidden
		if works(met.Code) {
			return
		}
	} else if caller.Err() != nil {
		return
	}
	c.trouble.Store(&met)
}

func (c *Client) server() string {
	base := c.transport.Base()
	return base.Scheme + "://" + base.Host
}

// detailOf is the innermost cause that a person understands, without the parts that differ from
// one attempt to the next, such as the client's port.
func detailOf(err error) string {
	if transport, is := errors.AsType[*TransportError](err); is {
		err = transport.Err
	}
	if unsent, is := errors.AsType[*unsentError](err); is {
		return unsent.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in " + MaxTimeout.String()
	}
	if request, is := errors.AsType[*url.Error](err); is {
		err = request.Err
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return err.Error()
	}
	if op, is := errors.AsType[*net.OpError](err); is && op.Err != nil {
		return strings.TrimPrefix(op.Err.Error(), "connect: ")
	}
	return err.Error()
}

// StatusCode returns the code of an error that the API answered; 0: it is none.
func StatusCode(err error) int {
	if refusal, is := errors.AsType[*apierrors.StatusError](err); is {
		return int(refusal.ErrStatus.Code)
	}
	return 0
}
