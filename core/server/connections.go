package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxConnections bounds the connections of a listener, and maxPerClient those from one
	// address, or over a unix socket; affordable lowers both for a process that may open few files.
	maxConnections = 64
	maxPerClient   = 16
	// busyFor is how long a request in progress keeps its connection from being closed for a new one.
	busyFor = 2 * time.Second
)

// connections are the connections of a listener. A connection beyond the limit replaces the one that
// has been idle longest, else the one whose request has been in progress longest, if that is for more
// than busyFor. Otherwise it is refused.
type connections struct {
	most, perClient int

	mu  sync.Mutex
	all []*connection
}

// connection is one connection of a listener.
type connection struct {
	net.Conn
	set    *connections
	client string
	// busy: a request is in progress. since is when that began, or when the connection became idle.
	busy  bool
	since time.Time
}

func newConnections(most, perClient int) *connections {
	return &connections{most: most, perClient: perClient}
}

// affordable returns limits of at most an eighth of the descriptors that the process may open: three
// listeners leave most of them to the rest of the agent.
func affordable() (most, perClient int) {
	most = maxConnections
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		most = int(max(4, min(uint64(most), files.Cur/8))) //nolint:gosec // at most maxConnections
	}
	return most, max(2, most*maxPerClient/maxConnections)
}

// admit adds a connection, and closes another one for it if necessary. If there is no room,
// it closes the new one and returns nil.
func (s *connections) admit(conn net.Conn) *connection {
	client, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		client = conn.RemoteAddr().String()
	}
	c := &connection{Conn: conn, set: s, client: client, since: time.Now()}
	s.mu.Lock()
	mine := 0
	for _, other := range s.all {
		if other.client == client {
			mine++
		}
	}
	var out *connection
	if full := mine >= s.perClient; full || len(s.all) >= s.most {
		out = s.weakest(func(other *connection) bool { return !full || other.client == client })
		if out == nil {
			s.mu.Unlock()
			_ = conn.Close() // it is refused
			return nil
		}
		s.remove(out)
	}
	s.all = append(s.all, c)
	s.mu.Unlock()
	if out != nil {
		_ = out.Conn.Close()
	}
	return c
}

// weakest returns the connection of a kind that is closed for a new one; nil if there is none. The lock
// is held.
func (s *connections) weakest(kind func(*connection) bool) *connection {
	var out *connection
	for _, c := range s.all {
		switch {
		case !kind(c) || c.busy && time.Since(c.since) <= busyFor:
		case out == nil || out.busy && !c.busy || out.busy == c.busy && c.since.Before(out.since):
			out = c
		}
	}
	return out
}

// state is the server's [http.Server.ConnState].
func (s *connections) state(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateActive || state == http.StateIdle {
		c.busy, c.since = state == http.StateActive, time.Now()
	}
}

// remove needs the lock.
func (s *connections) remove(c *connection) {
	s.all = slices.DeleteFunc(s.all, func(other *connection) bool { return other == c })
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.set.mu.Lock()
	c.set.remove(c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// boundedListener accepts what connections admits.
type boundedListener struct {
	net.Listener
	set *connections
}

// Accept implements [net.Listener].
func (l boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.set.admit(conn); c != nil {
			return c, nil
		}
	}
}
