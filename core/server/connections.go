package server

import (
	"context"
	"crypto/tls"
	"io"
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

// connections are the connections of a listener. A connection beyond the limit replaces one of the client
// that has most: the one that has waited for its client longest, else the one whose request has been in
// progress longest, if that is for more than busyFor or the new connection's client has at least two fewer.
// Otherwise it is refused. So only as many clients as there may be connections can keep another one out.
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
	// working counts the requests in progress for which nothing is awaited from the client. since is when
	// that became one, or when the connection began to wait for its client.
	working int
	since   time.Time
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
	count, most := map[string]int{}, 0
	for _, other := range s.all {
		count[other.client]++
		most = max(most, count[other.client])
	}
	var out *connection
	if full := count[client] >= s.perClient; full || len(s.all) >= s.most {
		if full {
			out = s.weakest(false, func(other *connection) bool { return other.client == client })
		} else if out = s.weakest(count[client]+2 <= most, func(other *connection) bool { return count[other.client] == most }); out == nil {
			out = s.weakest(false, func(*connection) bool { return true })
		}
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

// weakest returns the connection of a kind that is closed for a new one; nil if there is none. fair: also
// one whose request has just begun. The lock is held.
func (s *connections) weakest(fair bool, kind func(*connection) bool) *connection {
	var out *connection
	for _, c := range s.all {
		busy := c.working > 0
		switch {
		case !kind(c) || busy && !fair && time.Since(c.since) <= busyFor:
		case out == nil || out.working > 0 && !busy || (out.working > 0) == busy && c.since.Before(out.since):
			out = c
		}
	}
	return out
}

// work changes the number of requests of the connection that are in progress.
func (c *connection) work(change int) {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	before := c.working
	c.working += change
	if before == 0 || c.working == 0 {
		c.since = time.Now()
	}
}

// connectionKey is that of a request's connection in its context.
type connectionKey struct{}

// remember is the server's [http.Server.ConnContext].
func remember(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// working counts requests while their handler works, and not while it waits for their bodies.
func working(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.work(1)
			defer c.work(-1)
			if r.Body != http.NoBody {
				r.Body = &body{r.Body, c}
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// body is that of a request.
type body struct {
	io.ReadCloser
	conn *connection
}

func (b *body) Read(p []byte) (int, error) {
	b.conn.work(-1)
	defer b.conn.work(1)
	return b.ReadCloser.Read(p)
}

// Once answers a request as soon as its header is there, and then closes the connection: it is for probes, whose
// answer must not depend on what other clients do not send. The handler reads no body.
func Once(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // so net/http does not read the body before it answers
		handler.ServeHTTP(w, r)
		if r.Body != http.NoBody { // nor does it afterwards
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
		}
	})
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
