package status

import (
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
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

// dial opens a connection to an endpoint, which is closed with the test.
func dial(t *testing.T, e *Endpoint) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Verifies that the open connections are bounded, and that a scrape is answered when idle
// ones are closed.
func TestConnectionsAreBounded(t *testing.T) {
	e := endpoint(t, fixed{})
	before := descriptors(t)
	idle := make([]net.Conn, 2*maxConnections)
	for i := range idle {
		idle[i] = dial(t, e)
	}
	const slack = 8
	if n := descriptors(t) - before - len(idle); n > maxConnections+slack {
		t.Errorf("the endpoint has %d connections, want %d at most", n, maxConnections)
	}
	for _, conn := range idle {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if code, _ := get(t, e, "/metrics"); code != http.StatusOK {
		t.Errorf("a scrape gets %d", code)
	}
}

// descriptors is how many descriptors this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// Verifies that more scrapes than are answered at once each get all of it, in the format
// and the encoding that they ask for.
func TestScrapesAtOnce(t *testing.T) {
	const devices = 1000
	e := endpoint(t, crowd{devices: devices})
	asked := [2 * scrapes]struct{ accept, encoding string }{
		{"text/plain", "identity"}, {"text/plain;version=0.0.4", "gzip"},
		{"application/openmetrics-text;version=1.0.0", "gzip"},
		{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "identity"},
	}
	var group sync.WaitGroup
	for _, a := range asked {
		group.Go(func() {
			format, body := scrape(t, e, a.accept, a.encoding)
			want, _, _ := strings.Cut(a.accept, ";")
			if !strings.HasPrefix(string(format), want) {
				t.Errorf("asked for %s, got %s", a.accept, format)
			}
			n := strings.Count(body, "\n"+deviceHealthy.name+"{")
			switch format.FormatType() {
			case expfmt.TypeProtoDelim:
				n = counted(t, body, format)
			case expfmt.TypeOpenMetrics:
				if !strings.HasSuffix(body, "\n# EOF\n") {
					t.Errorf("%s does not end", format)
				}
			}
			if n != devices {
				t.Errorf("%s in %s: %d devices", a.accept, a.encoding, n)
			}
		})
	}
	group.Wait()
}

// scrape asks an endpoint for its metrics.
func scrape(t *testing.T, e *Endpoint, accept, encoding string) (_ expfmt.Format, body string) {
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
	return expfmt.Format(response.Header.Get("Content-Type")), string(text)
}

// counted is how many devices an answer has.
func counted(t *testing.T, body string, format expfmt.Format) (n int) {
	for decoder := expfmt.NewDecoder(strings.NewReader(body), format); ; {
		var f dto.MetricFamily
		switch err := decoder.Decode(&f); {
		case errors.Is(err, io.EOF):
			return n
		case err != nil:
			t.Error(err)
			return 0
		}
		if f.GetName() == deviceHealthy.name {
			n = len(f.GetMetric())
		}
	}
}
