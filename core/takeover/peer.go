package takeover

import (
	"context"
	"os"
	"time"
)

// Peer is one of the agents of a directory, in its own words.
type Peer struct {
	// Role is what it is there for: "active", "successor", "standby", or "refused" for
	// one that was started though another one is active, without taking turns.
	Role    string `json:"role"`
	PID     int    `json:"pid"`
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	// Since is when it began with that role.
	Since time.Time `json:"since"`
}

// Roles of a peer.
const (
	RoleActive    = "active"
	RoleSuccessor = "successor"
	RoleStandby   = "standby"
	RoleRefused   = "refused"
)

// refusedFor is how long one that was refused is worth telling of: longer than a pod
// that fails again and again waits between two attempts.
const refusedFor = 10 * time.Minute

// Self is this process as a peer. In a container the host name is the pod's.
func Self(role, version string) Peer {
	host, _ := os.Hostname() // for people only
	return Peer{Role: role, PID: os.Getpid(), Host: host, Version: version, Since: time.Now()}
}

// bounded is what is taken of a peer's words.
func (p Peer) bounded() *Peer {
	p.Role, p.Host, p.Version = cut(p.Role), cut(p.Host), cut(p.Version)
	return &p
}

func cut(text string) string { return text[:min(len(text), 253)] }

// Tell lets the active agent of a directory know of self, which does not wait for it. It
// reports whether the active one has answered, and is not about to end: then the directory
// stays taken. That the directory is locked alone does not say so, as the lock may outlive
// its holder for a moment.
func Tell(ctx context.Context, dir string, self Peer) (stays bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := connect(ctx, dir)
	if err != nil {
		return false, err
	}
	l := &line{conn: conn}
	// The end of ctx ends the listening as well.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if stop() {
			_ = conn.Close()
		}
	}()
	if err := l.send(message{Hello: &self}); err != nil {
		return false, err
	}
	l.listen(func(m message) bool {
		stays = m.Hello != nil && !m.Leaving
		return false // the first word says all
	})
	return stays, nil
}

// Others are the agents that wait, and the one that was refused last, if that was
// lately.
func (p *Post) Others() []Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var others []Peer
	for _, s := range p.successors {
		if s.peer != nil {
			others = append(others, *s.peer)
		}
	}
	if p.refused != nil && time.Since(p.refusedAt) < refusedFor {
		others = append(others, *p.refused)
	}
	return others
}

// Intruder returns the error about the last process that connected and is not an agent; ""
// if there was none lately.
func (p *Post) Intruder() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.intruder == nil || time.Since(p.intrudedAt) >= refusedFor {
		return ""
	}
	return p.intruder.Error()
}

// greet takes the words of a peer.
func (p *Post) greet(s *Successor, peer Peer) {
	defer p.poke()
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer.Role == RoleRefused {
		p.refused, p.refusedAt = peer.bounded(), time.Now()
		return
	}
	s.peer = peer.bounded()
}

// Active is the active agent; nil until it has said who it is, which one of an older
// version never does.
func (p *Place) Active() *Peer { return p.active.Load() }
