package page

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	callTimeout = 60 * time.Second // for an answer of Chromium
	stopTimeout = time.Minute      // for Chromium to end by itself, also on a machine that does much else
)

// Find returns the path of Chromium.
func Find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("chromium is not installed")
}

// Browser is a running Chromium with one tab.
type Browser struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	ended   chan struct{} // closed when Chromium closes its end of the pipe
	session string        // of the tab

	mu       sync.Mutex // mu guards the fields below, and writes to in
	next     int
	waiting  map[int]chan message
	problems []string
}

// message is a request, an answer or an event. The pipe ends each with a zero byte.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts the Chromium at path, which keeps its files in dir.
func Start(ctx context.Context, path, dir string) (*Browser, error) {
	toChild, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, fromChild, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, toChild.Close(), in.Close())
	}
	b := &Browser{in: in, ended: make(chan struct{}), waiting: map[int]chan message{}}
	b.cmd = exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--disable-breakpad", "--hide-scrollbars", "--lang=en-GB", "--user-data-dir="+dir, "--remote-debugging-pipe")
	b.cmd.Env = append(os.Environ(), "TZ=UTC")
	b.cmd.ExtraFiles = []*os.File{toChild, fromChild} // 3 and 4, as the flag expects
	err = cluster.StartCommand(b.cmd)
	err = errors.Join(err, toChild.Close(), fromChild.Close())
	go b.read(out) // Close waits for its end
	if err == nil {
		err = b.openTab(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close ends Chromium and waits for it.
func (b *Browser) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if b.cmd.Process == nil {
		return b.in.Close()
	}
	b.mu.Lock()
	b.session = "" // the next call is to Chromium itself
	b.mu.Unlock()
	err := b.call(ctx, "Browser.close", nil, nil)
	err = errors.Join(err, b.in.Close())
	if err != nil {
		err = errors.Join(err, b.cmd.Process.Kill())
	}
	<-b.ended
	if waited := b.cmd.Wait(); err == nil {
		err = waited
	}
	return err
}

func (b *Browser) openTab(ctx context.Context) error {
	var target struct{ TargetID string }
	if err := b.call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := b.call(ctx, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	b.mu.Lock()
	b.session = attached.SessionID
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		if err := b.call(ctx, domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// read passes answers on, and remembers the errors that the page reports.
func (b *Browser) read(out io.ReadCloser) {
	defer close(b.ended)
	defer out.Close()
	for r := bufio.NewReader(out); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return // Chromium ended
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			m = message{Method: "unreadable", Params: json.RawMessage(text)}
		}
		b.mu.Lock()
		switch m.Method {
		case "Runtime.exceptionThrown", "Log.entryAdded", "unreadable":
			b.problems = append(b.problems, m.Method+": "+string(m.Params))
		}
		answer := b.waiting[m.ID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		if answer != nil {
			answer <- m // room for the only answer
		}
	}
}

// Problems returns the errors of the page since the last call.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.problems
	b.problems = nil
	return out
}

// call sends a request and waits for its answer. result may be nil.
func (b *Browser) call(ctx context.Context, method string, params map[string]any, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer := make(chan message, 1)
	if err := b.send(method, raw, answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-b.ended:
		return fmt.Errorf("%s: chromium has ended", method)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

func (b *Browser) send(method string, params json.RawMessage, answer chan message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	raw, err := json.Marshal(message{ID: b.next, SessionID: b.session, Method: method, Params: params})
	if err != nil {
		return err
	}
	b.waiting[b.next] = answer
	_, err = b.in.Write(append(raw, 0))
	return err
}

// Open loads a page and waits until its script shows a report.
func (b *Browser) Open(ctx context.Context, url string) error {
	if err := b.call(ctx, "Page.navigate", map[string]any{"url": url}, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return cluster.Poll(ctx, func(ctx context.Context) error {
		var open bool
		err := b.Eval(ctx, `location.href !== "about:blank" && document.querySelector("main")?.hidden === false`, &open)
		if err == nil && !open {
			return fmt.Errorf("%s shows no report", url)
		}
		return err
	})
}

// Eval runs JavaScript as a click by a person would, and decodes its value.
func (b *Browser) Eval(ctx context.Context, script string, value any) error {
	var out struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	err := b.call(ctx, "Runtime.evaluate", map[string]any{
		"expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	}, &out)
	switch {
	case err != nil:
		return err
	case out.ExceptionDetails != nil:
		return fmt.Errorf("script: %s", cmp.Or(out.ExceptionDetails.Exception.Description, out.ExceptionDetails.Text))
	case value == nil || len(out.Result.Value) == 0:
		return nil
	}
	return json.Unmarshal(out.Result.Value, value)
}

// View is a screen.
type View struct {
	Width, Height int
	Dark          bool
}

// Resize gives the tab the size and the colours of a screen.
func (b *Browser) Resize(ctx context.Context, v View) error {
	size := map[string]any{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": false}
	if err := b.call(ctx, "Emulation.setDeviceMetricsOverride", size, nil); err != nil {
		return err
	}
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	return b.call(ctx, "Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
}

// Screenshot returns the visible part of the page as a PNG.
func (b *Browser) Screenshot(ctx context.Context) ([]byte, error) {
	var out struct{ Data string }
	if err := b.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &out); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(out.Data)
}
