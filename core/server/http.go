package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// limits are the bounds of a server.
type limits struct {
	// header and request are how long a request's header, and the whole of it, may take to arrive; a
	// handshake of TLS takes no longer than header.
	header, request time.Duration
	// answer is how long a request may take from its header to the end of the answer.
	answer time.Duration
	// idle is how long a connection may wait for its next request.
	idle time.Duration
	// headerBytes bounds the size of a header; net/http adds 4 KiB.
	headerBytes int
	// streams bounds the requests of a connection by HTTP/2, which only TLS has.
	streams int
}

// bounds are those of the agent's servers. An explanation and a scrape that waits for another one take
// up to 6 s; the API server waits for the webhook for 5 s by the chart.
var bounds = limits{
	header: 5 * time.Second, request: 5 * time.Second, answer: 10 * time.Second, idle: 2 * time.Minute,
	headerBytes: 16 << 10, streams: 64,
}

// HTTP answers HTTP requests with bounded connections, sizes and times. The bodies of requests are for
// the handler to bound.
type HTTP struct {
	Handler http.Handler
	// TLS makes it HTTPS; nil for HTTP.
	TLS *tls.Config
	// Grace is how long requests in progress may take when the server ends.
	Grace time.Duration
	// Log gets the errors of clients, at level debug; it must not be nil.
	Log *slog.Logger
}

// Serve answers on listener until ctx ends, and closes it. Requests that are in progress then are cut off
// after Grace. The error is nil if ctx has ended and the listener could be closed.
func (h HTTP) Serve(ctx context.Context, listener net.Listener) error {
	return h.serve(ctx, listener, bounds)
}

func (h HTTP) serve(ctx context.Context, listener net.Listener, l limits) error {
	accepted := newConnections(affordable())
	server := &http.Server{
		Handler: working(h.Handler), TLSConfig: h.TLS, ConnContext: remember,
		ReadHeaderTimeout: l.header, ReadTimeout: l.request, WriteTimeout: l.answer, IdleTimeout: l.idle,
		MaxHeaderBytes: l.headerBytes, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: l.streams},
		ErrorLog: slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug),
	}
	bounded := boundedListener{listener, accepted}
	done := make(chan error, 1)
	go func() {
		if h.TLS != nil {
			done <- server.ServeTLS(bounded, "", "")
		} else {
			done <- server.Serve(bounded)
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.Grace)
	defer cancel()
	var err error
	if server.Shutdown(limited) != nil {
		err = server.Close()
	}
	if ended := <-done; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
