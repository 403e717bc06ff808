package process

import (
	"io"

	"github.com/DeRuina/timberjack"
)

// File is a file for the output of a service, rotated by size. The zero value is no file.
type File struct {
	Path    string
	MaxSize int // of a file, in MiB
	Backups int // how many rotated files are kept
}

// open returns a writer to the file. It does not open the file before the first write.
func (f File) open() io.WriteCloser {
	return &timberjack.Logger{Filename: f.Path, MaxSize: f.MaxSize, MaxBackups: f.Backups, Compression: "none"}
}
