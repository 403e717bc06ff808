package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// The text is PREFIX.ID.BODY. The body contains the hash of the CA's public
// key, the secret and the checksum.
const (
	prefix       = "lockstep1"
	idLen        = 6 // characters
	secretLen    = 16
	checksumLen  = 7 // so that a body contains no incomplete character
	bodyLen      = len(pki.Hash{}) + secretLen + checksumLen
	bodyTextLen  = bodyLen * 8 / 5
	maxTextLen   = 4096 // no text of a token is nearly as long, even with other pasted text
	alphabetText = "0123456789abcdefghjkmnpqrstvwxyz"
)

// alphabet contains no letters that look like digits.
var alphabet = base32.NewEncoding(alphabetText).WithPadding(base32.NoPadding)

// Token lets a node join a cluster. Its String does not contain the secret.
type Token struct {
	ID     string   // public: it names the token in lists and messages
	CA     pki.Hash // of the public key of the cluster's CA
	Secret Secret
}

// Secret is the part of a token that only its holder knows.
type Secret [secretLen]byte

// String hides the secret.
func (Secret) String() string { return "(secret)" }

// GoString hides the secret.
func (Secret) GoString() string { return "(secret)" }

// Hash returns the hash of the secret that etcd stores. The secret consists of 128
// random bits, so a hash that is quick to compute is enough.
func (s Secret) Hash() pki.Hash { return sha256.Sum256(s[:]) }

// ErrText is returned for a text that is no token. No request was made with it.
var ErrText = errors.New("not a valid token")

// newToken returns a token with a random ID and secret.
func newToken(ca pki.Hash) Token {
	t := Token{CA: ca}
	var id [idLen]byte
	_, _ = rand.Read(id[:]) // never returns an error
	for _, b := range id {
		t.ID += string(alphabetText[int(b)%len(alphabetText)])
	}
	_, _ = rand.Read(t.Secret[:])
	return t
}

// String names the token, for logs and messages. Text contains the secret too.
func (t Token) String() string { return t.ID }

// Text returns the whole token. Its holder can join the cluster.
func (t Token) Text() string {
	body := make([]byte, 0, bodyLen)
	body = append(body, t.CA[:]...)
	body = append(body, t.Secret[:]...)
	body = append(body, t.checksum()...)
	return prefix + "." + t.ID + "." + alphabet.EncodeToString(body)
}

// checksum covers all the rest of the text.
func (t Token) checksum() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s.%s.%s.", prefix, t.ID, t.CA[:])
	h.Write(t.Secret[:])
	return h.Sum(nil)[:checksumLen]
}

// Parse returns the token of a text that a person typed or pasted. White space is
// ignored, and so is the case of letters. Errors are ErrText and name the remedy.
// They never contain a part of the secret.
func Parse(text string) (Token, error) {
	if len(text) > maxTextLen {
		return Token{}, wrong("it has %d characters, and a token has %d", len(text), tokenTextLen)
	}
	text = normalized(text)
	parts := strings.Split(text, ".")
	switch {
	case text == "":
		return Token{}, wrong("it is empty")
	case parts[0] != prefix:
		return Token{}, wrong("it does not begin with %q", prefix+".")
	case len(parts) != 3:
		return Token{}, wrong("it has %d parts instead of 3, with a dot between them", len(parts))
	case len(parts[1]) != idLen || len(parts[2]) != bodyTextLen:
		return Token{}, wrong("it has %d characters instead of %d: a part is missing, or was pasted twice", len(text), tokenTextLen)
	}
	id, body := ParseID(parts[1]), digits(parts[2])
	if id == "" || strings.Trim(body, alphabetText) != "" {
		return Token{}, wrong("it has a character that no token has")
	}
	raw, err := alphabet.DecodeString(body)
	if err != nil {
		return Token{}, wrong("it has a character that no token has")
	}
	t := Token{ID: id, CA: pki.Hash(raw), Secret: Secret(raw[len(pki.Hash{}):])}
	if string(t.checksum()) != string(raw[bodyLen-checksumLen:]) {
		return Token{}, wrong("its checksum is wrong, so at least one character was mistyped, or two were swapped")
	}
	return t, nil
}

const tokenTextLen = len(prefix) + 1 + idLen + 1 + bodyTextLen

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s; copy it again, or create another one on a member: sidecar cluster token create", ErrText, fmt.Sprintf(format, args...))
}

// ParseID returns the ID that a person typed; empty: it is none.
func ParseID(text string) string {
	id := digits(normalized(text))
	if len(id) != idLen || strings.Trim(id, alphabetText) != "" {
		return ""
	}
	return id
}

// normalized removes characters that terminals and mail programs add, and the
// difference between upper and lower case.
func normalized(text string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '\u200b' || r == '\ufeff' {
			return -1
		}
		return r
	}, text))
}

// digits replaces the letters that people read for digits.
func digits(text string) string {
	return strings.NewReplacer("o", "0", "i", "1", "l", "1").Replace(text)
}
