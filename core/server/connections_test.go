package server

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
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

// Verifies which connection gives way to a new one: of its own client where that has too many, else of
// the client that has most; the longest idle first, and one that is being answered only for a client that
// has fewer.
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
		for _, name := range slices.Sorted(maps.Keys(conns)) {
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
	conns["a1"].work(1)
	admit("a3", "10.0.0.1:3")
	alive("a1", "a3")
	conns["a3"].work(1)
	if admit("a4", "10.0.0.1:4") {
		t.Error("a client has more connections than it may")
	}
	admit("b1", "10.0.0.2:1")
	admit("c1", "10.0.0.3:1") // client a has two
	alive("a3", "b1", "c1")
	admit("d1", "10.0.0.4:1") // all have one, and b1 has been idle longest
	alive("a3", "c1", "d1")
	conns["c1"].work(1)
	conns["d1"].work(1)
	if admit("e1", "10.0.0.5:1") {
		t.Error("a connection that is being answered gave way to a client that has as many")
	}
	conns["c1"].work(-1)
	admit("a4", "10.0.0.1:4")
	alive("a3", "a4", "d1")
	admit("f1", "10.0.0.6:1") // a4, of client a, has been idle
	alive("a3", "d1", "f1")
}

// Verifies that requests from as many addresses as fill the server, all of which wait for what their
// clients do not send or read, or are in progress, keep no other client from its answer.
func TestClientsCannotKeepOthersOut(t *testing.T) {
	const header = "POST /hold HTTP/1.1\r\nHost: a\r\n"
	for name, c := range map[string]struct {
		send string
		// hold is what the handler does with the request; nil if it is not called.
		hold func(w http.ResponseWriter, r *http.Request, done <-chan struct{})
	}{
		"no request":    {},
		"half a header": {send: header},
		"a body that the handler reads": {header + "Content-Length: 9\r\n\r\n", func(_ http.ResponseWriter, r *http.Request, _ <-chan struct{}) {
			_, _ = io.Copy(io.Discard, r.Body)
		}},
		"a body that the handler does not read": {header + "Content-Length: 9\r\n\r\n", func(http.ResponseWriter, *http.Request, <-chan struct{}) {}},
		"slow answers":                          {header + "\r\n", func(_ http.ResponseWriter, _ *http.Request, done <-chan struct{}) { <-done }},
		"answers that are not read": {header + "\r\n", func(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}) {
			for err := error(nil); err == nil; _, err = w.Write(make([]byte, 1<<20)) {
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			done, held := make(chan struct{}), make(chan struct{}, maxConnections)
			address := serve(t, HTTP{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hold" {
					held <- struct{}{}
					c.hold(w, r, done)
				}
			})}, generous())
			defer close(done)
			for n := range maxConnections {
				from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n/maxPerClient))}}
				conn, err := from.DialContext(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close() }()
				if _, err := io.WriteString(conn, c.send); err != nil {
					t.Fatal(err)
				}
			}
			for range maxConnections {
				if c.hold != nil {
					<-held
				}
			}
			for range 3 {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
				if err := ask(t, client, "http://"+address); err != nil {
					t.Errorf("another client gets no answer: %v", err)
				}
			}
		})
	}
}

// Verifies that a probe is answered before the body that its header announces, and that the connection
// is closed then, whatever is sent.
func TestOnce(t *testing.T) {
	address := serve(t, HTTP{Handler: Once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))}, generous())
	for _, send := range []string{"GET / HTTP/1.1\r\n", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n", "POST / HTTP/1.1\r\nContent-Length: 9\r\n",
		"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "GET / HTTP/1.1\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n"} {
		conn := dial(t, address)
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, send+"Host: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(text), "HTTP/1.") || !strings.HasSuffix(string(text), "\r\n\r\nok") {
			t.Errorf("%q: the answer is %q, %v", send, text, err)
		}
	}
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
