package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// errSyntax reports that an answer is not the JSON that it should be.
var errSyntax = errors.New("the answer is not the JSON that was asked for")

// scanner reads the values of a JSON text one after another, without decoding them. It keeps
// one value at a time, in a buffer that it reuses, so that a list takes the memory of its
// largest object. It accepts more than JSON: the later decoding checks the values.
type scanner struct {
	in    io.Reader
	buf   []byte
	at    int // of the next byte
	ended bool
}

// firstBuffer is the size of a scanner's first buffer.
const firstBuffer = 16 << 10

// reset begins another text.
func (s *scanner) reset(in io.Reader) { *s = scanner{in: in, buf: s.buf[:0]} }

// fill reads more. It drops the bytes before keep, and moves the rest to the front.
func (s *scanner) fill(keep int) error {
	if s.ended {
		return io.ErrUnexpectedEOF
	}
	if keep > 0 {
		s.buf = s.buf[:copy(s.buf, s.buf[keep:])]
		s.at -= keep
	}
	if len(s.buf) == cap(s.buf) {
		s.buf = append(make([]byte, 0, max(firstBuffer, 2*cap(s.buf))), s.buf...)
	}
	n, err := s.in.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if errors.Is(err, io.EOF) {
		s.ended, err = true, nil
	}
	return err
}

// next skips white space, and returns the byte after it, which stays the next one.
func (s *scanner) next() (byte, error) {
	for {
		for ; s.at < len(s.buf); s.at++ {
			if b := s.buf[s.at]; b != ' ' && b != '\n' && b != '\t' && b != '\r' {
				return b, nil
			}
		}
		if err := s.fill(s.at); err != nil {
			return 0, err
		}
	}
}

// skip skips white space and the byte b.
func (s *scanner) skip(b byte) error {
	got, err := s.next()
	if err != nil {
		return err
	}
	if got != b {
		return fmt.Errorf("%w: got %q, want %q", errSyntax, got, b)
	}
	s.at++
	return nil
}

// more skips the separator of two values. It reports whether another one follows; if not, it
// skips the byte end.
func (s *scanner) more(end byte) (bool, error) {
	b, err := s.next()
	if err != nil {
		return false, err
	}
	s.at++
	switch b {
	case ',':
		return true, nil
	case end:
		return false, nil
	}
	return false, fmt.Errorf("%w: got %q, want ',' or %q", errSyntax, b, end)
}

// value returns the next value as it is. It is valid until the next call of a
// method.
func (s *scanner) value() ([]byte, error) {
	if _, err := s.next(); err != nil {
		return nil, err
	}
	var end valueEnd
	for done := 0; ; {
		n, found := end.find(s.buf[s.at+done:])
		done += n
		if found && done == 0 {
			return nil, fmt.Errorf("%w: got %q, want a value", errSyntax, s.buf[s.at])
		}
		if found {
			out := s.buf[s.at : s.at+done]
			s.at += done
			return out, nil
		}
		if err := s.fill(s.at); err != nil {
			return nil, err
		}
	}
}

// string decodes the next value, which must be a string. Most are printable ASCII without a backslash.
func (s *scanner) string() (string, error) {
	if err := s.skip('"'); err != nil {
		return "", err
	}
	rest := s.buf[s.at:]
	if n := bytes.IndexByte(rest, '"'); n >= 0 && plain(rest[:n]) {
		s.at += n + 1
		return string(rest[:n]), nil
	}
	s.at--
	raw, err := s.value()
	if err != nil {
		return "", err
	}
	return unquote(raw)
}

// plain reports whether the text of a string is the string itself.
func plain(text []byte) bool {
	for _, b := range text {
		if b < ' ' || b > '~' || b == '\\' {
			return false
		}
	}
	return true
}

// valueEnd finds the end of a value in a text that arrives in parts. The zero
// valueEnd is before the value's first byte.
type valueEnd struct {
	depth    int // of the maps and lists around
	inString bool
	escaped  bool // the byte before was a backslash in a string
	inScalar bool // a number, true, false or null
}

// find returns how many bytes of text belong to the value, and whether it ends
// there.
func (v *valueEnd) find(text []byte) (n int, found bool) {
	for i := 0; i < len(text); i++ {
		if v.inString {
			if i = v.skipString(text, i); i == len(text) {
				return i, false
			}
			if v.depth == 0 {
				return i + 1, true
			}
			continue
		}
		if n, ends := v.take(text[i]); ends {
			return i + n, true
		}
	}
	return len(text), false
}

// take takes a byte outside of strings. It returns whether the value ends here, and
// how many bytes of it: 0, the byte is behind the value; 1, it is the last one.
func (v *valueEnd) take(b byte) (n int, ends bool) {
	switch b {
	case '"':
		v.inString = true
	case '{', '[':
		v.depth++
	case '}', ']':
		if v.depth == 0 { // of the surrounding value
			return 0, true
		}
		v.depth--
		return 1, v.depth == 0
	case ',', ' ', '\n', '\t', '\r':
		return 0, v.depth == 0 && v.inScalar
	default:
		v.inScalar = v.depth == 0
	}
	return 0, false
}

// skipString returns where the string that text[i] belongs to ends: the index of
// its last quote, or the end of text.
func (v *valueEnd) skipString(text []byte, i int) int {
	quote := i - 1 // the first quote from i on; len(text): there is none
	for ; i < len(text); i++ {
		if v.escaped {
			v.escaped = false
			continue
		}
		if quote < i {
			quote = len(text)
			if n := bytes.IndexByte(text[i:], '"'); n >= 0 {
				quote = i + n
			}
		}
		n := bytes.IndexByte(text[i:quote], '\\')
		if n < 0 {
			v.inString = quote == len(text)
			return quote
		}
		i += n
		v.escaped = true
	}
	return i
}

// members calls visit for each member of an object, until visit returns false.
// text is a complete value.
func members(text []byte, visit func(name string, value []byte) (bool, error)) error {
	s := &scanner{buf: text, ended: true}
	return s.members(func(name string) (bool, error) {
		value, err := s.value()
		if err != nil {
			return false, err
		}
		return visit(name, value)
	})
}

// members calls visit before each value of an object, until visit returns false. visit must
// read the value.
func (s *scanner) members(visit func(name string) (bool, error)) error {
	if err := s.skip('{'); err != nil {
		return err
	}
	if b, err := s.next(); err != nil || b == '}' {
		s.at++
		return err
	}
	for {
		name, err := s.string()
		if err != nil {
			return err
		}
		if err := s.skip(':'); err != nil {
			return err
		}
		if on, err := visit(name); err != nil || !on {
			return err
		}
		if on, err := s.more('}'); err != nil || !on {
			return err
		}
	}
}

// each calls visit before each value of a list. visit must read the value. null is an empty
// list.
func (s *scanner) each(visit func() error) error {
	if b, err := s.next(); err != nil || b == 'n' {
		if err == nil {
			_, err = s.value()
		}
		return err
	}
	if err := s.skip('['); err != nil {
		return err
	}
	if b, err := s.next(); err != nil || b == ']' {
		s.at++
		return err
	}
	for {
		if err := visit(); err != nil {
			return err
		}
		if on, err := s.more(']'); err != nil || !on {
			return err
		}
	}
}

// unquote decodes a string. null is empty.
func unquote(raw []byte) (string, error) {
	if n := len(raw); n >= 2 && raw[0] == '"' && plain(raw[1:n-1]) {
		return string(raw[1 : n-1]), nil
	}
	var out string
	if err := json.Unmarshal(raw, &out); err != nil {
		return "", fmt.Errorf("%w: %w", errSyntax, err)
	}
	return out, nil
}
