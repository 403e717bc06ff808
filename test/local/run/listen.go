package main

import (
	"fmt"
	"net"
	"os"
)

// freeListen checks the address that the user wants: otherwise what answers there would be taken for the new sidecar.
func freeListen() error {
	addr := os.Getenv("LOCKSTEP_LISTEN")
	if addr == "" {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("LOCKSTEP_LISTEN=%s: %w; if this shell has the settings of another node, type this in a new one", addr, err)
	}
	return l.Close()
}

// listenAddr returns the default address if it is free. Empty: any address.
func listenAddr() string {
	if addr := os.Getenv("LOCKSTEP_LISTEN"); addr != "" {
		return addr
	}
	l, err := net.Listen("tcp", defaultListen)
	if err != nil || l.Close() != nil {
		return ""
	}
	return defaultListen
}
