package status

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"
)

// dial opens a connection to an endpoint, which is closed with the test.
func dial(t *testing.T, e *Endpoint) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.Address())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Verifies that connections that ask nothing are few, and that a client which has more than
// it may still gets an answer.
func TestIdleConnectionsAreBounded(t *testing.T) {
	e := endpoint(t, fixed{})
	const opened, slack = 200, 8
	before := descriptors(t)
	for range opened {
		dial(t, e)
	}
	// All others have been accepted before.
	if code, _ := get(t, e, "/metrics"); code != http.StatusOK {
		t.Errorf("a scrape gets %d", code)
	}
	if n := descriptors(t) - before - opened; n > maxPerClient+slack {
		t.Errorf("the endpoint has %d connections of a client, want %d at most", n, maxPerClient)
	}
}

// descriptors is how many descriptors this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(open)
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

// Verifies which connection gives way to a new one: of its own client where that has too
// many, of any where all have; the longest idle first, and none that is being answered.
func TestConnectionsGiveWay(t *testing.T) {
	set := newConnections(3, 2)
	conns := map[string]*connection{}
	admit := func(name, client string) bool {
		local, remote := net.Pipe()
		t.Cleanup(func() { _ = remote.Close() })
		c := set.admit(addressed{local, client})
		conns[name] = c
		return c != nil
	}
	alive := func(want ...string) {
		t.Helper()
		set.mu.Lock()
		defer set.mu.Unlock()
		var got []string
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "c1", "d1"} {
			if c := conns[name]; c != nil && slices.Contains(set.all, c) {
				got = append(got, name)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("connections %v, want %v", got, want)
		}
	}
	admit("a1", "10.0.0.1:1")
	admit("a2", "10.0.0.1:2")
	set.state(conns["a1"], http.StateActive)
	admit("a3", "10.0.0.1:3")
	alive("a1", "a3")
	set.state(conns["a3"], http.StateActive)
	if admit("a4", "10.0.0.1:4") {
		t.Error("a client has more connections than it may")
	}
	admit("b1", "10.0.0.2:1")
	admit("c1", "10.0.0.3:1")
	alive("a1", "a3", "c1")
	set.state(conns["a1"], http.StateIdle)
	set.state(conns["c1"], http.StateActive)
	admit("d1", "10.0.0.4:1")
	alive("a3", "c1", "d1")
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	remote string
}

func (a addressed) RemoteAddr() net.Addr {
	address, _ := net.ResolveTCPAddr("tcp", a.remote)
	return address
}

// Verifies that an agent of which a part hangs does not answer that it is alive.
func TestNotAlive(t *testing.T) {
	release := make(chan struct{})
	e := probes(t, stuck{release: release})
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Address()+"/livez", nil)
	must(t, err)
	if response, err := http.DefaultClient.Do(request); err == nil {
		t.Error("it answers", response.Body.Close())
	}
}

// stuck is an agent whose parts hang.
type stuck struct {
	fixed
	release chan struct{}
}

func (s stuck) Alive() { <-s.release }
