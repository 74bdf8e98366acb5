package takeover

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// maxSuccessors bounds how many may wait. More than two is already strange.
const maxSuccessors = 16

// Post is the active agent's. Its methods are safe for concurrent use.
type Post struct {
	path     string
	self     Peer
	release  func() error
	listener net.Listener
	changed  chan struct{}
	running  sync.WaitGroup

	mu         sync.Mutex
	leaving    bool
	closed     bool
	successors []*Successor
	// refused is who was refused last.
	refused   *Peer
	refusedAt time.Time
	// intruder is the error about the last process that was disconnected because it is not
	// an agent.
	intruder   error
	intrudedAt time.Time
}

// Successor is an agent that waits for its turn, as the active one sees it.
type Successor struct {
	line line
	// done is closed when it has taken over, or hung up.
	done func()
	over <-chan struct{}
	// Guarded by Post.mu.
	ready   bool
	failing []string
	peer    *Peer // nil until it has said who it is
	took    bool
}

// Take makes this process, self, the active one of the directory, which must exist. The
// error is an [ErrHeld] if another one is.
func Take(dir string, self Peer) (_ *Post, err error) {
	release, err := Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, release())
		}
	}()
	path := filepath.Join(dir, socketName)
	// Whoever made it does not hold the lock any more.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier agent: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for successors: %w", err)
	}
	// Close removes it, not the listener.
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	p := &Post{path: path, self: self, release: release, listener: listener, changed: make(chan struct{}, 1)}
	p.running.Go(p.accept)
	return p, nil
}

// accept takes successors in until the listener is closed.
func (p *Post) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		if err := checkPeer(conn); err != nil {
			p.intrude(err)
			_ = conn.Close()
			continue
		}
		over := make(chan struct{})
		s := &Successor{line: line{conn: conn}, over: over, done: sync.OnceFunc(func() { close(over) })}
		if !p.admit(s) {
			_ = conn.Close()
			continue
		}
		p.running.Go(func() { p.hear(s) })
	}
}

// intrude records a connection that was refused.
func (p *Post) intrude(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.intruder, p.intrudedAt = err, time.Now()
	p.poke()
}

func (p *Post) admit(s *Successor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.successors) >= maxSuccessors {
		return false
	}
	_ = s.line.send(message{Hello: &p.self, Leaving: p.leaving}) // what one that is gone already has said counts
	p.successors = append(p.successors, s)
	p.poke()
	return true
}

// hear listens to one successor until it hangs up.
func (p *Post) hear(s *Successor) {
	s.line.listen(func(m message) bool {
		if m.Hello != nil {
			p.greet(s, *m.Hello)
		}
		if m.Taken {
			p.mu.Lock()
			s.took = true
			p.mu.Unlock()
			s.done()
		}
		if m.Ready {
			p.mu.Lock()
			s.ready, s.failing = true, m.Failing
			p.mu.Unlock()
			p.poke()
		}
		return true
	})
	_ = s.line.conn.Close()
	s.done()
	p.mu.Lock()
	p.successors = slices.DeleteFunc(p.successors, func(other *Successor) bool { return other == s })
	p.mu.Unlock()
	p.poke()
}

func (p *Post) poke() {
	select {
	case p.changed <- struct{}{}:
	default: // one is pending
	}
}

// Changed tells that a successor came, is ready, or hung up. The channel holds one
// signal.
func (p *Post) Changed() <-chan struct{} { return p.changed }

// Ready is the successor that is ready and came first, with the backends that do
// not work at it, or nil.
func (p *Post) Ready() (s *Successor, failing []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.successors {
		if s.ready {
			return s, s.failing
		}
	}
	return nil, nil
}

// Leave tells those who wait that this agent is about to end, and reports whether
// anybody does wait. It may be called again.
func (p *Post) Leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leaving {
		p.leaving = true
		for _, s := range p.successors {
			_ = s.line.send(message{Leaving: true}) // hear notices a broken line
		}
	}
	return len(p.successors) > 0
}

// Yield gives the post to s: this process must not touch the directory any more.
// Close must follow, and hangs up on the others that wait: they would be faster than
// s if they were told now.
func (p *Post) Yield(s *Successor) error {
	err := p.letGo()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	return errors.Join(err, s.line.send(message{Yours: true}))
}

// Over is closed when the successor has taken over, or hung up.
func (s *Successor) Over() <-chan struct{} { return s.over }

// Took reports whether the successor has said that it has taken over.
func (p *Post) Took(s *Successor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.took
}

// letGo removes the socket while it is surely ours, and then frees the directory.
func (p *Post) letGo() error {
	return errors.Join(p.listener.Close(), os.Remove(p.path), p.release())
}

// Close frees the directory, if it was not yielded, and hangs up on everybody.
func (p *Post) Close() error {
	var err error
	if !p.isClosed() {
		err = p.letGo()
	}
	p.hangUp()
	p.running.Wait()
	return err
}

func (p *Post) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// hangUp closes all lines, and lets nobody in any more.
func (p *Post) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.successors {
		_ = s.line.conn.Close()
	}
}
