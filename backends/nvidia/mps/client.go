package mps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// dialLimit bounds a connection to the companion and the writing of a message.
	dialLimit = time.Second
	// redial is the pause before the next connection attempt.
	redial = time.Second
)

// Client asks the companion to run the daemon. Its methods may be called from several
// goroutines. Until the first plan it does nothing and has no goroutine.
type Client struct {
	log     *slog.Logger
	timing  Timing
	changed chan struct{}
	kick    chan struct{}

	mu     sync.Mutex
	wanted *Plan
	status status // the companion's latest
	err    error  // why there is no companion
	closed bool
	cancel context.CancelFunc
	done   chan struct{} // nil until the first plan
	// answered is closed at the companion's first answer, or when there is no companion.
	answered chan struct{}
}

// NewClient returns a client without a plan. It must be closed.
func NewClient(log *slog.Logger, timing Timing) *Client {
	return &Client{
		log: log, timing: timing, changed: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		answered: make(chan struct{}),
	}
}

// Want asks the companion for a daemon that works by the plan; nil for none. A daemon that
// has clients stays as it is until they have ended, so that no container loses its work because
// of another GPU or other limits. The first call waits for the companion's answer, for a second
// at most, so that a backend that starts reports no fault while the daemon is ready.
func (c *Client) Want(p *Plan) {
	c.mu.Lock()
	first := c.done == nil && p != nil && !c.closed
	if same := c.wanted.equal(p) && (p == nil || c.wanted.socket == p.socket); !same && !c.closed {
		c.wanted = p
		poke(c.kick)
	}
	if first {
		ctx, cancel := context.WithCancel(context.Background())
		c.cancel, c.done = cancel, make(chan struct{})
		go c.run(ctx)
	}
	c.mu.Unlock()
	if first {
		select {
		case <-c.answered:
		case <-time.After(dialLimit):
		}
	}
}

// Changed receives after something about [Client.NotReady] has changed. It holds one
// event; there should be one reader.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// NotReady returns why the GPU with this UUID cannot be used; nil if the daemon shares it
// by the plan.
func (c *Client) NotReady(uuid string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.status.Running.serves(uuid, c.wanted):
		return nil
	case c.status.Running != nil:
		return errors.New("the MPS control daemon runs without this GPU or with other limits; " +
			"it is restarted when no process uses it")
	case c.status.Why != "":
		return errors.New(c.status.Why)
	}
	return errors.New("the MPS control daemon is being started")
}

// Close disconnects. The daemon stays.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	cancel, done := c.cancel, c.done
	c.mu.Unlock()
	if done != nil {
		cancel()
		<-done
	}
}

func (c *Client) plan() *Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// report stores the status of the daemon.
func (c *Client) report(now status, err error) {
	c.mu.Lock()
	same := text(c.err) == text(err) && c.status.Why == now.Why && c.status.Running.equal(now.Running)
	c.status, c.err = now, err
	select {
	case <-c.answered:
	default:
		close(c.answered)
	}
	c.mu.Unlock()
	if same {
		return
	}
	if why := text(err) + now.Why; why != "" {
		c.log.Warn("GPUs cannot be shared by MPS", "error", why)
	}
	poke(c.changed)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func poke(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // one is pending
	}
}

// run is connected to the companion while there is a plan.
func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		var retry <-chan time.Time
		if plan := c.plan(); plan != nil {
			if err := c.talk(ctx, plan.socket); err != nil && ctx.Err() == nil {
				c.report(status{}, err)
			}
			retry = time.After(redial)
		}
		select {
		case <-ctx.Done():
		case <-c.kick:
		case <-retry:
		}
	}
}

// talk sends plans to a companion and receives its status, until no plan is for this companion
// or the connection ends.
func (c *Client) talk(ctx context.Context, socket string) error {
	conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("no MPS daemon is reachable (%w): it runs in the pod of the chart's value nvidiaMPS, "+
			"or in the systemd unit accelmux-nvidia-mps", err)
	}
	var lost error // read it after over
	over := make(chan struct{})
	go func() {
		defer close(over)
		lost = c.receive(conn)
	}()
	defer func() {
		_ = conn.Close()
		<-over
	}()
	send := json.NewEncoder(conn)
	for {
		plan := c.plan()
		stays := plan != nil && plan.socket == socket
		if !stays {
			plan = &Plan{}
		}
		_ = conn.SetWriteDeadline(time.Now().Add(dialLimit))
		if err := send.Encode(plan); err != nil || !stays {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return fmt.Errorf("the connection to the MPS daemon's companion ended: %w", lost)
		case <-c.kick:
		}
	}
}

// receive reports what the companion sends.
func (c *Client) receive(conn net.Conn) error {
	for messages := json.NewDecoder(conn); ; {
		_ = conn.SetReadDeadline(time.Now().Add(4 * c.timing.Check))
		var now status
		if err := messages.Decode(&now); err != nil {
			return err
		}
		c.report(now, nil)
	}
}
