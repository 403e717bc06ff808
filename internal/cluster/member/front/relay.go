package front

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// An idle direction keeps a small buffer of its own. A busy one uses a large one of the pool, for one record of
	// TLS.
	smallBuffer = 4 << 10
	largeBuffer = 16 << 10
	// drain is how long the client may take to close its side, after etcd closed its own.
	drain = 5 * time.Second
)

var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// relay passes bytes in both directions until both ended, or one is broken. It closes inner; the caller closes the
// client's connection.
func relay(client *tls.Conn, inner *net.UnixConn, patience time.Duration) {
	var toEtcd sync.WaitGroup
	toEtcd.Go(func() {
		switch read, written := copyBytes(inner, client, 0); {
		case read != nil:
			_ = inner.Close() // the other direction ends too
		case written == nil:
			_ = inner.CloseWrite() // if that fails, etcd closed it
		} // else etcd closed it: the other direction passes the rest, and ends
	})
	read, written := copyBytes(client, inner, patience)
	if read == nil && written == nil && client.CloseWrite() == nil {
		_ = client.SetReadDeadline(time.Now().Add(drain)) // of a connection that is closed after it
	} else {
		_ = client.NetConn().Close() // the other direction ends too
	}
	toEtcd.Wait()
	_ = inner.Close() // it ended
}

// copyBytes writes to dst what it reads from src, until src ends. It returns which of the two is broken. A write that
// takes longer than patience breaks dst; 0: none does.
func copyBytes(dst, src net.Conn, patience time.Duration) (read, written error) {
	small := make([]byte, smallBuffer)
	buffer, large := small, (*[largeBuffer]byte)(nil)
	defer func() {
		if large != nil {
			largeBuffers.Put(large)
		}
	}()
	for {
		n, err := src.Read(buffer)
		if n > 0 && patience > 0 {
			_ = dst.SetWriteDeadline(time.Now().Add(patience)) // of a closed connection, whose write fails
		}
		if n > 0 {
			if _, err := dst.Write(buffer[:n]); err != nil {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		case n == len(buffer) && large == nil:
			large = largeBuffers.Get().(*[largeBuffer]byte)
			buffer = large[:]
		case n < smallBuffer && large != nil:
			largeBuffers.Put(large)
			buffer, large = small, nil
		}
	}
}
