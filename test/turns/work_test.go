package turns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// This file is the program that is run in a turn. It writes its observations of all nodes into
// a log, so that no two clocks need to be compared.

// job describes its work, in JSON, as its second argument.
type job struct {
	Node    string
	Log     string            // file, of all nodes
	Readyz  map[string]string // URL of each node
	Restart string            // URL that restarts the kube-apiserver of the node, and answers before that is over; empty: nothing
	Until   string            // a file that ends it; empty: it ends at once
	Fail    bool
}

// line is one of the log.
type line struct {
	Node, What string // began or ended
	PID        int
	Open       []string // the nodes that serve
}

const (
	began = "began"
	ended = "ended"
	// workFailed is the exit code of work that fails.
	workFailed = 5
)

func work(ctx context.Context, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if err := j.write(ctx, began); err != nil {
		return err
	}
	if j.Until != "" {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		err := cluster.Poll(limited, func(context.Context) error {
			_, err := os.Stat(j.Until)
			return err
		})
		if err != nil {
			return err
		}
	}
	if j.Restart != "" {
		resp, err := http.Post(j.Restart, "", nil)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
	}
	if err := j.write(ctx, ended); err != nil {
		return err
	}
	if j.Fail {
		return errors.New("this work is to fail")
	}
	return nil
}

// write appends the current state to the log.
func (j job) write(ctx context.Context, what string) error {
	l := line{Node: j.Node, What: what, PID: os.Getpid()}
	for _, id := range []string{"cp-1", "cp-2", "cp-3"} {
		if serves(ctx, j.Readyz[id]) {
			l.Open = append(l.Open, id)
		}
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(j.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", text)
	return errors.Join(err, f.Close())
}

// serves asks once.
func serves(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}
