package main

import (
	"fmt"
	"io"
	"regexp"
)

// starting matches the checks that fail while a kube-apiserver starts: each passes soon.
var starting = regexp.MustCompile(`(\[-\](poststarthook/|informer-sync)[^;)]*(; )?)+`)

// elapsed matches durations, times, and the number of a log that the kubelet keeps.
var elapsed = regexp.MustCompile(`\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z\b|\b[0-9]+\.log\b|\b[0-9.]+(ns|µs|ms|s|m|h)\b|\b[0-9]+m[0-9.]+s\b`)

// waitCauses prints why a gate is closed, when that changes.
type waitCauses struct {
	out  io.Writer
	last string
}

func (w *waitCauses) print(cause string) {
	if lasting(cause) != lasting(w.last) {
		fmt.Fprintf(w.out, "waiting: %s\n", cause)
	}
	w.last = cause
}

// lasting returns a message without what changes while its cause lasts: durations, times, and checks of a kube-apiserver that starts.
func lasting(message string) string {
	return starting.ReplaceAllString(elapsed.ReplaceAllString(message, ""), "[-]")
}
