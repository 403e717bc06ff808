package console

import (
	"fmt"
	"io"
	"regexp"
)

// starting matches the checks that fail while a kube-apiserver starts: each passes soon.
var starting = regexp.MustCompile(`(\[-\](poststarthook/|informer-sync)[^;)]*(; )?)+`)

// elapsed matches durations, times, and the number of a log that the kubelet keeps.
var elapsed = regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z\b|\b[0-9]+\.log\b|\b[0-9.]+(ns|µs|ms|s|m|h)\b|\b[0-9]+m[0-9.]+s\b`)

// WaitCauses prints why a gate is closed, when that changes.
type WaitCauses struct {
	Out  io.Writer
	Last string
}

// Print prints a cause that is not the last one.
func (w *WaitCauses) Print(cause string) {
	if Lasting(cause) != Lasting(w.Last) {
		fmt.Fprintf(w.Out, "waiting: %s\n", cause)
	}
	w.Last = cause
}

// Lasting returns a message without what changes while its cause lasts: durations, times, and checks of a kube-apiserver that starts.
func Lasting(message string) string {
	return starting.ReplaceAllString(elapsed.ReplaceAllString(message, ""), "[-]")
}
