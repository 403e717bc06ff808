// Command image makes an OCI image layout of programs, without an engine and without a registry:
//
//	image OUT.tar VERSION COMMIT EPOCH ARCH=PROGRAM...
//
// The image of each architecture has the program as /sidecar, the certificates of public authorities
// (Mozilla's list), and nothing else. The same input makes the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const usage = "usage: image OUT.tar VERSION COMMIT EPOCH ARCH=PROGRAM, one or more of the last"

// owner is who runs the program: a number, so that Kubernetes can check runAsNonRoot.
const owner = 65532

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 5 {
		return errors.New(usage)
	}
	seconds, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return fmt.Errorf("EPOCH %q: seconds since 1970", args[3])
	}
	m := maker{version: args[1], commit: args[2], at: time.Unix(seconds, 0).UTC()}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range args[4:] {
		arch, program, ok := strings.Cut(arg, "=")
		if !ok {
			return errors.New(usage)
		}
		image, err := m.image(arch, program)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return m.write(args[0], index)
}

type maker struct {
	version, commit string
	at              time.Time
}

func (m maker) image(arch, program string) (v1.Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	err = errors.Join(
		m.add(w, "etc/ssl/certs/ca-certificates.crt", 0o644, authorities()), m.add(w, "sidecar", 0o755, content), w.Close(),
	)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: m.at}, CreatedBy: "build/release"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, m.config(arch, config.DeepCopy()))
}

// authorities are those that may be trusted without a condition, in PEM.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// config fills the configuration of an image.
func (m maker) config(arch string, config *v1.ConfigFile) *v1.ConfigFile {
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: m.at}
	config.Config = v1.Config{
		Entrypoint: []string{"/sidecar"}, Cmd: []string{"run"}, User: fmt.Sprintf("%d:%d", owner, owner),
		ExposedPorts: map[string]struct{}{"8086/tcp": {}},
		Env:          []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "lockstep",
			"org.opencontainers.image.description": "One reconciler, and a readiness gate, for an HA Kubernetes control plane",
			"org.opencontainers.image.version":     m.version,
			"org.opencontainers.image.revision":    m.commit,
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return config
}

// write makes a layout, and a tar file of it.
func (m maker) write(out string, index v1.ImageIndex) (err error) {
	dir, err := os.MkdirTemp("", "lockstep-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// The name by which ctr and podman import it. With a host, or the kubelet would ask for another one.
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": m.version, "io.containerd.image.name": "lockstep.dev/lockstep:" + m.version,
	})); err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	// In the order of names, as WalkDir goes.
	err = filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		return m.add(w, name, 0o644, content)
	})
	return errors.Join(err, w.Close())
}

func (m maker) add(w *tar.Writer, name string, mode int64, content []byte) error {
	err := w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: m.at, Format: tar.FormatUSTAR,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
