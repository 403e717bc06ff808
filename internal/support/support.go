// Package support collects what helps to find out what is wrong with a node, and packs it into one archive
// (docs/history.md#support). It owns the time that this may take, the form of the archive, and what must not be in it;
// its caller says what to collect.
//
// Collect starts one goroutine for each part, and leaves behind those that do not end in time: a disk or a server
// that hangs holds up no other part. So only a program that ends soon may call it.
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
	About string // what it is, for people
	// Collect returns the content. It should end with its context.
	Collect func(context.Context) ([]byte, error)
}

// File is what became of a part. One without content is missing, and Problem says why.
type File struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Bytes   int    `json:"bytes"`
	Problem string `json:"problem,omitempty"`

	Content []byte `json:"-"`
}

// maxFile bounds one part: more than the store or a recording has.
const maxFile = 32 << 20

// errNoTime is why a part is missing that did not end.
var errNoTime = errors.New("no answer in time")

// Collect collects all parts at once, in at most the given time, and returns them in their order,
// without secrets.
func Collect(ctx context.Context, limit time.Duration, parts []Part) []File {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNoTime)
	defer cancel()
	results := make([]chan File, len(parts))
	for i, p := range parts {
		results[i] = make(chan File, 1) // so that what comes too late holds nothing up
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
			case f := <-results[i]: // both may be there
				out = append(out, f)
			default:
				out = append(out, fileOf(p, nil, context.Cause(ctx)))
			}
		}
	}
	return out
}

// fileOf returns a file with what was collected of it.
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

// contents is the first file of an archive: what it has, and what is missing.
const contents = "contents.json"

// mode is that of each file.
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
