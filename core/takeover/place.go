package takeover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// connectLimit bounds the connecting to an agent that does not accept.
const connectLimit = 5 * time.Second

// Place is the end of an agent that waits for its turn. Its methods are safe for
// concurrent use.
type Place struct {
	line    line
	leaving chan struct{}
	yours   chan struct{}
	gone    chan struct{}
	active  atomic.Pointer[Peer]
	running sync.WaitGroup
}

// connect connects to the active agent of the directory. It fails with an [ErrNoAgent] if
// the process that listens there is not an agent.
func connect(ctx context.Context, dir string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, socketName))
	if err != nil {
		return nil, fmt.Errorf("connect to the active agent: %w", err)
	}
	if err := checkPeer(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the active agent: %w", err), conn.Close())
	}
	return conn, nil
}

// Queue connects to the active agent of the directory, as self. It fails at once if nobody
// listens: then the lock may be free; and with an [ErrNoAgent] if who listens is none.
func Queue(ctx context.Context, dir string, self Peer) (*Place, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	p := &Place{
		line:    line{conn: conn},
		leaving: make(chan struct{}), yours: make(chan struct{}), gone: make(chan struct{}),
	}
	p.running.Go(p.hear)
	_ = p.line.send(message{Hello: &self}) // hear notices a broken line
	return p, nil
}

func (p *Place) hear() {
	leaving := sync.OnceFunc(func() { close(p.leaving) })
	yours := sync.OnceFunc(func() { close(p.yours) })
	defer close(p.gone)
	p.line.listen(func(m message) bool {
		if m.Hello != nil {
			p.active.Store(m.Hello.bounded())
		}
		if m.Leaving {
			leaving()
		}
		if m.Yours {
			yours()
		}
		return true
	})
	_ = p.line.conn.Close()
}

// Leaving is closed when the active agent is about to end, and waits for one that
// is ready.
func (p *Place) Leaving() <-chan struct{} { return p.leaving }

// Gone is closed when the active agent has hung up.
func (p *Place) Gone() <-chan struct{} { return p.gone }

// Ask says that this agent could take over at once, but for the failing backends.
// It may be asked again, when they are others. The answer comes in Granted.
func (p *Place) Ask(failing []string) error {
	return p.line.send(message{Ready: true, Failing: failing})
}

// Granted is closed when the active agent has let go of the directory: Take it.
func (p *Place) Granted() <-chan struct{} { return p.yours }

// Taken tells the one before that it may end.
func (p *Place) Taken() error { return p.line.send(message{Taken: true}) }

// Close gives the place up.
func (p *Place) Close() error {
	err := p.line.conn.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.running.Wait()
	return err
}
