package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Path is where the API server sends its requests.
const Path = "/validate"

// grace is how long requests in progress may take when the server ends.
const grace = time.Second

// Serve serves the reviewer at [Path], /healthz and /readyz, by HTTPS, until ctx ends, and closes the
// listener. It is ready as soon as it serves.
func Serve(ctx context.Context, listener net.Listener, reviewer http.Handler, certificate *Certificate, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, reviewer)
	for _, path := range []string{"GET /healthz", "GET /readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("ok\n")) // a probe that is gone needs no answer
		})
	}
	server := &http.Server{
		Handler:           mux,
		TLSConfig:         &tls.Config{GetCertificate: certificate.Get, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		// The API server waits for 30 s at most, by default for 10 s.
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		// Mistakes of clients.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(limited) != nil {
		_ = server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
