package server

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// Verifies that connections that ask nothing are few, over TLS as well, that one which is being answered
// stays, and that a client which has more than it may still gets an answer.
func TestIdleConnectionsAreBounded(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	address, client := secured(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-release
		}
	}))
	const opened, slack = 200, 8
	slow := make(chan error, 1)
	go func() { slow <- ask(t, client, address+"/slow") }()
	<-entered
	before := descriptors(t)
	for range opened {
		dial(t, strings.TrimPrefix(address, "https://"))
	}
	// All others have been accepted before.
	another := &http.Client{Transport: client.Transport.(*http.Transport).Clone()}
	defer another.CloseIdleConnections()
	if err := ask(t, another, address); err != nil {
		t.Errorf("the last client gets no answer: %v", err)
	}
	if n := descriptors(t) - before - opened; n > maxPerClient+slack {
		t.Errorf("the server has %d connections of a client, want %d at most", n, maxPerClient)
	}
	close(release)
	if err := <-slow; err != nil {
		t.Errorf("the first client gets no answer: %v", err)
	}
}

func ask(t *testing.T, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
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
	set.state(tls.Server(conns["a1"], nil), http.StateActive)
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
	set.state(conns["a3"], http.StateIdle)
	set.state(conns["c1"], http.StateIdle)
	admit("b1", "10.0.0.2:2") // d1 has been idle since it connected
	alive("a3", "b1", "c1")
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
