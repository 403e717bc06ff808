package terminal

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Clean replaces unprintable characters by spaces: some of them control terminals.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// Count returns "1 object" or "2 objects".
func Count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Are returns the verb for n things: "is" or "are".
func Are[N int | int64](n N) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// OrDash returns a text, or a dash if it is empty.
func OrDash(s string) string { return cmp.Or(s, "-") }

// Prefixed returns text behind a prefix; nothing without a text.
func Prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// When returns a text if a condition is true, otherwise nothing.
func When(is bool, text string) string { return map[bool]string{true: text}[is] }

// YesOrNo returns the word for a value.
func YesOrNo(is bool) string { return map[bool]string{true: "yes", false: "no"}[is] }

// Duration formats d as kubectl does: 45s, 12m, 3h20m, 5d4h.
func Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Bytes is a size as people read it.
func Bytes(n int64) string {
	const kib = 1024
	switch {
	case n < kib:
		return fmt.Sprintf("%d B", n)
	case n < kib*kib:
		return fmt.Sprintf("%d KiB", n/kib)
	case n >= kib*kib*kib:
		return fmt.Sprintf("%.1f GiB", float64(n)/kib/kib/kib)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/kib/kib)
}

// ShortDigest keeps enough of a digest to tell two of them apart.
func ShortDigest(d string) string { return d[:min(len(d), len("sha256:")+12)] }
