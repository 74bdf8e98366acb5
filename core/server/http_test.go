package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// net/http keeps a connection for 500 ms after a response with Connection: close.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// generous are bounds of which none is reached in a test.
func generous() limits {
	l := bounds
	l.header, l.request, l.answer, l.idle = time.Hour, time.Hour, time.Hour, time.Hour
	return l
}

// serve serves until the test ends, and returns the address.
func serve(t *testing.T, h HTTP, l limits) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.serve(ctx, listener, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// soon is a bound that is reached at once, and patience how long that may take on a busy machine.
const soon, patience = 50 * time.Millisecond, time.Minute

// Verifies that a client that sends, or reads, too slowly or nothing loses its connection; each case by
// the one bound that is short.
func TestSlowClients(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n"
	for name, c := range map[string]struct {
		send  string
		short func(*limits)
	}{
		"half a header": {"GET / HTTP/1.1\r\nHost: a\r\n", func(l *limits) { l.header = soon }},
		"no request":    {"", func(l *limits) { l.header = soon }},
		"half a body":   {post + "\r\nhalf", func(l *limits) { l.request = soon }},
		"no body":       {post + "Expect: 100-continue\r\n\r\n", func(l *limits) { l.request = soon }},
		"no reading":    {"GET /huge HTTP/1.1\r\nHost: a\r\n\r\n", func(l *limits) { l.answer = soon }},
		"idle":          {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", func(l *limits) { l.idle = soon }},
	} {
		t.Run(name, func(t *testing.T) {
			l := generous()
			c.short(&l)
			ended := make(chan struct{})
			address := serve(t, HTTP{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				if r.URL.Path == "/huge" {
					for err == nil { // far more than the kernel stores for a client
						_, err = w.Write(make([]byte, 1<<20))
					}
				}
				close(ended)
			})}, l)
			conn := dial(t, address)
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, c.send); err != nil {
				t.Fatal(err)
			}
			if name == "no reading" {
				select {
				case <-ended:
				case <-time.After(patience):
					t.Error("the answer to a client that does not read has no end")
				}
				return
			}
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
		})
	}
}

// Verifies that a header that is too large is refused, by HTTP 1.1 and 2.
func TestLargeHeader(t *testing.T) {
	address := serve(t, HTTP{Handler: http.NotFoundHandler()}, generous())
	conn := dial(t, address)
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", strings.Repeat("x", bounds.headerBytes+4<<10)); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _ = answer.Body.Close(); answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("HTTP 1.1: %s", answer.Status)
	}
	secure, client := secured(t, http.NotFoundHandler())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, secure, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X", strings.Repeat("x", bounds.headerBytes+4<<10))
	if answer, err := client.Do(request); err == nil {
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("HTTP 2: %s", answer.Status)
		}
	}
}

// secured serves by TLS, and returns the address and a client that makes one connection by HTTP/2.
func secured(t *testing.T, handler http.Handler) (string, *http.Client) {
	t.Helper()
	own := httptest.NewUnstartedServer(nil)
	own.StartTLS() // for its certificate
	certificate, roots := own.TLS.Certificates, own.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	own.Close()
	address := serve(t, HTTP{Handler: handler, TLS: &tls.Config{Certificates: certificate, MinVersion: tls.VersionTLS12}}, generous())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, MaxConnsPerHost: 1,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return "https://" + address, &http.Client{Transport: transport}
}

// Verifies that a connection by HTTP/2 has a bounded number of requests, and that those above wait.
func TestStreamsAreBounded(t *testing.T) {
	var now, most atomic.Int64
	full, more := make(chan struct{}), 8
	var once sync.Once
	address, client := secured(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		if n == int64(bounds.streams) {
			once.Do(func() { close(full) })
		}
		<-full
		for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
	}))
	var all sync.WaitGroup
	for range bounds.streams + more {
		all.Go(func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := client.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			if _ = answer.Body.Close(); answer.ProtoMajor != 2 {
				t.Errorf("the answer is by %s", answer.Proto)
			}
		})
	}
	all.Wait()
	if most.Load() != int64(bounds.streams) {
		t.Errorf("%d requests at once, want %d", most.Load(), bounds.streams)
	}
}
