package process

import (
	"io"

	"github.com/DeRuina/timberjack"
)

// File is a file for the output of a service, which is rotated by size. The zero value is
// none.
type File struct {
	Path    string
	MaxSize int // in MiB, of a file
	Backups int // how many rotated files are kept
}

// open returns the file. Nothing is opened before the first write.
func (f File) open() io.WriteCloser {
	return &timberjack.Logger{Filename: f.Path, MaxSize: f.MaxSize, MaxBackups: f.Backups, Compression: "none"}
}
