// Command pack compresses a program for the build tag packed_member: FILE becomes FILE.gz, and
// FILE.sha256 has its sum. It is the same on every machine, which programs named gzip are not.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pack FILE")
		os.Exit(2)
	}
	if err := pack(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	sum := fmt.Sprintf("%x\n", sha256.Sum256(content))
	return errors.Join(w.Close(), os.WriteFile(file+".gz", out.Bytes(), 0o644), os.WriteFile(file+".sha256", []byte(sum), 0o644), os.Remove(file))
}
