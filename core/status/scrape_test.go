package status

import (
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// crowd is an agent with so many devices.
type crowd struct {
	fixed
	devices int
}

func (c crowd) Healths(show func(DeviceHealth)) {
	for i := range c.devices {
		show(DeviceHealth{Backend: "mock", ID: "mock-" + strconv.Itoa(i), Resource: "example.com/gpu", Healthy: true})
	}
}

// pieces is a client that looks at how much it is sent at a time.
type pieces struct {
	header    http.Header
	all, most int
}

func (p *pieces) Header() http.Header { return p.header }
func (p *pieces) WriteHeader(int)     {}

func (p *pieces) Write(b []byte) (int, error) {
	p.all, p.most = p.all+len(b), max(p.most, len(b))
	return len(b), nil
}

// Verifies that an answer is in memory compressed only, and is sent in pieces.
func TestAnswerIsNotKept(t *testing.T) {
	e, err := NewMetrics("127.0.0.1:0", crowd{devices: 5000}, NewTally(), http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	must(t, err)
	client := &pieces{header: http.Header{}}
	e.handler.ServeHTTP(client, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if client.all < 400_000 || client.most > 32<<10 {
		t.Errorf("%d bytes, up to %d at a time", client.all, client.most)
	}
}

// Verifies that more scrapes than are made at once each get all of it, in the format
// and the encoding that they ask for.
func TestScrapesAtOnce(t *testing.T) {
	const devices = 1000
	e := endpoint(t, crowd{devices: devices})
	asked := [2 * scrapes]struct{ accept, encoding string }{
		{"text/plain", "identity"}, {"text/plain;version=0.0.4", "gzip"},
		{"text/plain", "gzip"},
		{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "identity"},
	}
	var group sync.WaitGroup
	for _, a := range asked {
		group.Go(func() {
			format, body := scrape(t, e, a.accept, a.encoding)
			want, _, _ := strings.Cut(a.accept, ";")
			if !strings.HasPrefix(format, want) {
				t.Errorf("asked for %s, got %s", a.accept, format)
			}
			if n := strings.Count(body, "mock-"); n != devices {
				t.Errorf("%s in %s: %d devices", a.accept, a.encoding, n)
			}
		})
	}
	group.Wait()
}

// scrape asks an endpoint for its metrics.
func scrape(t *testing.T, e *Endpoint, accept, encoding string) (format, body string) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.Address()+"/metrics", http.NoBody)
	if err != nil {
		t.Error(err)
		return "", ""
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", encoding)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return "", ""
	}
	defer func() { _ = response.Body.Close() }()
	plain := io.Reader(response.Body)
	if encoding == "gzip" {
		if plain, err = gzip.NewReader(response.Body); err != nil {
			t.Errorf("%s: %v", response.Status, err)
			return "", ""
		}
	}
	text, err := io.ReadAll(plain)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s: %v", response.Status, err)
	}
	return response.Header.Get("Content-Type"), string(text)
}

// Verifies that clients that do not read the answer keep no other from its metrics.
func TestClientsThatDoNotRead(t *testing.T) {
	e := endpoint(t, crowd{devices: 50_000}) // more than what the kernel takes of an answer
	for range 2 * scrapes {
		conn := dial(t, e)
		must(t, conn.(*net.TCPConn).SetReadBuffer(4096))
		if _, err := fmt.Fprintf(conn, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // its answer has begun
			t.Fatal(err)
		}
	}
	if code, _ := get(t, e, "/metrics"); code != http.StatusOK {
		t.Errorf("a scrape gets %d", code)
	}
}

// dial opens a connection to an endpoint, which is closed with the test.
func dial(t *testing.T, e *Endpoint) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.Address())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
