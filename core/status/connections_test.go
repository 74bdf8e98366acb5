package status

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/patience"
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

// Verifies that the agent says that it is alive while it can open no file.
func TestAliveWithoutDescriptors(t *testing.T) {
	dir := serveStatus(t)
	question, err := NewClient(dir).askAlive(t.Context())
	must(t, err)
	defer func() { _ = question.Close() }()
	var before unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: before.Max}))
	err = question.answer()
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	if err != nil {
		t.Error(err)
	}
	if err := NewClient(dir).Alive(t.Context()); err != nil {
		t.Error(err)
	}
}

// Verifies that an agent that is stuck, and one that is not there, are not alive.
func TestNotAlive(t *testing.T) {
	if err := NewClient(t.TempDir()).Alive(t.Context()); err == nil {
		t.Error("an agent that is not there is alive")
	}
	release := make(chan struct{})
	stuck := stuck{release: release}
	dir := serveStatusOf(t, stuck)
	t.Cleanup(func() { close(release) })
	client := NewClient(dir)
	client.patience = 1
	patience.Until(t, "the socket is there", func() bool {
		question, err := client.askAlive(t.Context())
		if err == nil {
			_ = question.Close()
		}
		return err == nil
	})
	if err := client.Alive(t.Context()); err == nil {
		t.Error("an agent that is stuck is alive")
	}
}

// stuck is an agent whose parts hang.
type stuck struct {
	fixed
	release chan struct{}
}

func (s stuck) Alive() { <-s.release }
