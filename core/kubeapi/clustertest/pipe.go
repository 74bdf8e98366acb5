package clustertest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc/test/bufconn"
)

// NewInBubble is New for a test in a bubble of testing/synctest: no connection
// leaves the process, so that time passes while the server and its clients wait.
func NewInBubble(t testing.TB, name string, labels map[string]string) *Server {
	return start(t, name, labels, func(handler http.Handler) (*httptest.Server, dialer) {
		listener := bufconn.Listen(64 << 10)
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
		server.Start()
		return server, func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
	})
}

// dialer is how a client reaches the server; nil for the usual way.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)
