package roles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// podRunner is a fake of a kubelet with one static pod: it runs the program of the manifest
// in its directory, starts it again when it ends, and stops it when the manifest is removed. A
// changed manifest is another pod, which starts after the old one ended.
//
// The pod listens as soon as it exists: the kubelet opens its socket. A sidecar takes a pod
// for ended when connections are refused (docs/roles.md#static-pod).
type podRunner struct {
	t      *testing.T
	file   string // the manifest
	listen string

	// Only run uses these.
	cmd      *exec.Cmd // nil: no pod runs
	manifest []byte    // of the pod that runs
	ended    chan struct{}
	stopping bool
}

// startPods starts one that reads a manifest. It ends with the test, with its pod.
func startPods(t *testing.T, file, address string) {
	t.Helper()
	k := &podRunner{t: t, file: file, listen: address}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func (k *podRunner) run(ctx context.Context) {
	for backoff.Sleep(ctx, 5*time.Millisecond) {
		if err := k.sync(); err != nil {
			k.t.Errorf("the fake of the kubelet: %v", err)
			return
		}
	}
	if k.cmd != nil {
		_ = k.cmd.Process.Kill() // it may have ended
		<-k.ended
	}
}

func (k *podRunner) sync() error {
	wanted, err := os.ReadFile(k.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if k.cmd == nil {
		if len(wanted) == 0 {
			return nil
		}
		return k.start(wanted)
	}
	select {
	case <-k.ended:
		k.cmd = nil
		return nil
	default:
	}
	if bytes.Equal(wanted, k.manifest) || k.stopping {
		return nil
	}
	k.stopping = true
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (k *podRunner) start(manifest []byte) error {
	var pod struct {
		Spec struct {
			Containers []struct{ Command []string }
		}
	}
	if err := yaml.Unmarshal(manifest, &pod); err != nil || len(pod.Spec.Containers) != 1 {
		return fmt.Errorf("%s: %s: %w", filepath.Base(k.file), manifest, err)
	}
	l, err := net.Listen("tcp", k.listen)
	if err != nil {
		return err
	}
	defer l.Close() // the pod holds a copy
	tcp, is := l.(*net.TCPListener)
	if !is {
		return fmt.Errorf("%T is not a TCP listener", l)
	}
	socket, err := tcp.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	command := pod.Spec.Containers[0].Command
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{socket}
	if err := cluster.StartCommand(cmd); err != nil {
		return err
	}
	k.cmd, k.manifest, k.stopping, k.ended = cmd, manifest, false, make(chan struct{})
	ended := k.ended
	go func() { // ends with the pod
		defer close(ended)
		_ = cmd.Wait() // how it ended does not matter
	}()
	return nil
}
