package support

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// secret is a form in which a secret appears in text.
type secret struct {
	signs []string // each secret of the form contains one of them; to search for these is much faster
	form  *regexp.Regexp
	put   string
}

// Forms of secrets that an archive must never contain. No part should contain any: this is the last defence
// against people who put a secret into a message, a URL or a command line.
var secrets = []secret{
	{[]string{"PRIVATE KEY"}, regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`), "(a private key was removed)"},
	{[]string{"lockstep1."}, regexp.MustCompile(`\blockstep1\.[A-Za-z0-9._-]+`), "(a token was removed)"},
	// The token of a ServiceAccount.
	{[]string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), "(a token was removed)"},
	{[]string{"earer ", "asic "}, regexp.MustCompile(`\b([Bb]earer|[Bb]asic) +[A-Za-z0-9._~+/=-]{6,}`), "$1 (removed)"},
	{[]string{"@"}, regexp.MustCompile(`(://[^/@\s:"']*):[^/@\s"']+@`), "$1:(removed)@"},
	{
		[]string{"assword=", "asswd=", "oken=", "ecret=", "ey="},
		regexp.MustCompile(`\b([Pp]assword|[Pp]asswd|[Tt]oken|[Ss]ecret|[Aa]pi-?[Kk]ey)=[^\s"',&]+`), "$1=(removed)",
	},
}

// Redact replaces text that looks like a secret.
func Redact(text []byte) []byte {
	for _, s := range secrets {
		if slices.ContainsFunc(s.signs, func(sign string) bool { return bytes.Contains(text, []byte(sign)) }) {
			text = s.form.ReplaceAll(text, []byte(s.put))
		}
	}
	return text
}

// redactPacked does the same to a compressed text, line by line. The text may end in the middle, if its writer was
// killed.
func redactPacked(content []byte) ([]byte, error) {
	in, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if _, fails := packed.Write(Redact(line)); fails != nil {
			return nil, fails
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			err = packed.Close()
			return out.Bytes(), err
		case err != nil:
			return nil, fmt.Errorf("unpack: %w", err)
		}
	}
}
