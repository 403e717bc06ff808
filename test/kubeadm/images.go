package kubeadm

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeImage writes an image with one static program as a docker-archive, which containerd
// imports. The program is in PATH under its name.
func writeImage(file, tag, program, name string) (err error) {
	layer := file + ".layer"
	digest, err := writeLayer(layer, program, "usr/local/bin/"+name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(layer)) }()
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Env": []string{"PATH=/usr/local/bin"}, "Entrypoint": []string{"/usr/local/bin/" + name}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest}},
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(config)
	configName, layerName := hex.EncodeToString(sum[:])+".json", digest+"/layer.tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{tag}, "Layers": []string{layerName}}})
	if err != nil {
		return err
	}
	return writeTar(file, func(w *tar.Writer) error {
		if err := addFile(w, layerName, layer, 0o644); err != nil {
			return err
		}
		return errors.Join(addBytes(w, configName, config), addBytes(w, "manifest.json", manifest))
	})
}

// writeLayer writes a layer with one file, and returns its digest.
func writeLayer(file, program, path string) (string, error) {
	err := writeTar(file, func(w *tar.Writer) error { return addFile(w, path, program, 0o755) })
	if err != nil {
		return "", err
	}
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func writeTar(file string, fill func(*tar.Writer) error) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	return errors.Join(fill(w), w.Close(), out.Close())
}

func addFile(w *tar.Writer, name, file string, mode int64) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	return add(w, tar.Header{Name: name, Mode: mode, Size: info.Size()}, in)
}

func addBytes(w *tar.Writer, name string, content []byte) error {
	return add(w, tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}, bytes.NewReader(content))
}

func add(w *tar.Writer, h tar.Header, content io.Reader) error {
	h.Typeflag = tar.TypeReg
	if err := w.WriteHeader(&h); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(h.Name), err)
	}
	_, err := io.Copy(w, content)
	return err
}
