// Package support collects files that help to diagnose a node, and packs them into one archive
// (docs/history.md#support). It owns the time limit, the form of the archive, and the removal of secrets; its
// caller chooses the parts.
//
// Collect starts one goroutine for each part, and abandons those that do not end in time: a disk or a server that
// hangs delays no other part. So only a program that ends soon may call it.
package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"
)

// Part is one file of the archive.
type Part struct {
	Name  string // in the archive
	About string // describes it for people
	// Collect returns the content. It should end with its context.
	Collect func(context.Context) ([]byte, error)
}

// File is the result of a part. Without content it is missing, and Problem explains why.
type File struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Bytes   int    `json:"bytes"`
	Problem string `json:"problem,omitempty"`

	Content []byte `json:"-"`
}

// maxFile bounds one part; the store and a recording are smaller.
const maxFile = 32 << 20

// errNoTime explains a missing part that did not end in time.
var errNoTime = errors.New("no answer in time")

// Collect collects all parts at once, in at most the given time, and returns them in their order,
// without secrets.
func Collect(ctx context.Context, limit time.Duration, parts []Part) []File {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoTime)
	defer cancel()
	results := make([]chan File, len(parts))
	for i, p := range parts {
		results[i] = make(chan File, 1) // a late result blocks no goroutine
		go func() {
			content, err := p.Collect(ctx)
			results[i] <- fileOf(p, content, err)
		}()
	}
	out := make([]File, 0, len(parts))
	for i, p := range parts {
		select {
		case f := <-results[i]:
			out = append(out, f)
		case <-ctx.Done():
			select {
			case f := <-results[i]: // if both are ready
				out = append(out, f)
			default:
				out = append(out, fileOf(p, nil, context.Cause(ctx)))
			}
		}
	}
	return out
}

// fileOf returns the file of a part: its content without secrets, or the problem.
func fileOf(p Part, content []byte, err error) File {
	f := File{Name: p.Name, About: p.About}
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it has %d bytes; at most %d are collected", len(content), maxFile)
	}
	switch {
	case err != nil:
	case path.Ext(p.Name) == ".gz":
		f.Content, err = redactPacked(content)
	default:
		f.Content = Redact(content)
	}
	if err != nil {
		f.Content, f.Problem = nil, string(Redact([]byte(err.Error())))
	}
	f.Bytes = len(f.Content)
	return f
}

// contents is the first file of an archive: it lists the parts, also the missing ones.
const contents = "contents.json"

// mode is the mode of each file.
const mode = 0o600

// Archive packs files into a .tar.gz, below one directory.
func Archive(dir string, at time.Time, files []File) ([]byte, error) {
	list, err := json.MarshalIndent(files, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("list the contents: %w", err)
	}
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	add := func(name string, content []byte) error {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(dir, name), Size: int64(len(content)), Mode: mode, ModTime: at.Truncate(time.Second),
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	err = add(contents, append(list, '\n'))
	for _, f := range files {
		if err == nil && f.Problem == "" {
			err = add(f.Name, f.Content)
		}
	}
	if err = errors.Join(err, archive.Close(), packed.Close()); err != nil {
		return nil, fmt.Errorf("pack the files: %w", err)
	}
	return out.Bytes(), nil
}
