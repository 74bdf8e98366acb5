package webhook

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/accelmux/accelmux/core/server"
)

// Path is where the API server sends its requests.
const Path = "/validate"

// grace is how long requests in progress may take when the server ends.
const grace = time.Second

// Serve serves the reviewer at [Path], /healthz and /readyz, by HTTPS and as a [server.HTTP], until ctx
// ends, and closes the listener. It is ready as soon as it serves.
func Serve(ctx context.Context, listener net.Listener, reviewer http.Handler, certificate *Certificate, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, reviewer)
	for _, path := range []string{"GET /healthz", "GET /readyz"} {
		mux.Handle(path, server.Once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("ok\n")) // a probe that is gone needs no answer
		})))
	}
	return server.HTTP{
		Handler: mux, TLS: &tls.Config{GetCertificate: certificate.Get, MinVersion: tls.VersionTLS12}, Grace: grace, Log: log,
	}.Serve(ctx, listener)
}
