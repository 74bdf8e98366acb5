package clustertest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// NewInBubble is New for a test in a bubble of testing/synctest: no connection
// leaves the process, so that time passes while the server and its clients wait.
func NewInBubble(t testing.TB, name string, labels map[string]string) *Server {
	return start(t, name, labels, func(handler http.Handler) (*httptest.Server, dialer) {
		pipe := &pipeListener{connections: make(chan net.Conn), closed: make(chan struct{})}
		server := &httptest.Server{Listener: pipe, Config: &http.Server{Handler: handler}}
		server.Start()
		return server, pipe.dial
	})
}

// dialer is how a client reaches the server; nil for the usual way.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// pipeListener is a listener whose connections are net.Pipes.
type pipeListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener; nobody is there.
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
