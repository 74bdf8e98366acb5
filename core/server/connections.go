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
	// address, or over a unix socket; both are lower if the process may open only few files.
	maxConnections = 64
	maxPerClient   = 16
	// busyFor is how long a connection that is being answered is not closed for a new one.
	busyFor = 2 * time.Second
)

// connections are the connections of a listener. A connection beyond the limit replaces
// the one that has been idle longest, or is refused if all are being answered.
type connections struct {
	most, perClient int

	mu  sync.Mutex
	all []*connection // the oldest first
}

// connection is one connection of a listener.
type connection struct {
	net.Conn
	set    *connections
	client string
	// busy is the time since when it is being answered; zero while it is idle.
	busy time.Time
}

func newConnections(most, perClient int) *connections {
	return &connections{most: most, perClient: perClient}
}

// affordable returns limits that are an eighth of the descriptors at most: three listeners leave
// most to the rest of the agent.
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
	c := &connection{Conn: conn, set: s, client: client}
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

// weakest returns the oldest connection of a kind that may be closed for a new one; nil if
// there is none.
func (s *connections) weakest(kind func(*connection) bool) *connection {
	var slow *connection
	for _, c := range s.all {
		switch {
		case !kind(c):
		case c.busy.IsZero():
			return c
		case slow == nil && time.Since(c.busy) > busyFor:
			slow = c
		}
	}
	return slow
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
	switch state {
	case http.StateActive:
		c.busy = time.Now()
	case http.StateIdle:
		c.busy = time.Time{}
	}
}

// remove is called with the lock held.
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
