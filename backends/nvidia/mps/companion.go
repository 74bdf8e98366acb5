package mps

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/statefile"
)

// Name is the companion's name: the first argument of the program that runs it.
const Name = "mps"

// Main runs the companion until SIGTERM and returns its exit status. args are those after
// [Name].
func Main(args []string) int {
	at := place{}
	flags := flag.NewFlagSet(Name, flag.ContinueOnError)
	flags.StringVar(&at.root, "root", "/", "root `directory` of the driver's installation")
	flags.StringVar(&at.dir, "dir", DefaultDir, "`directory` in that root for pipes, logs and the backend's socket")
	flags.StringVar(&at.program, "program", "", "`path` of nvidia-cuda-mps-control in that root (default: searched)")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	// Standard error may be a pipe of an agent that has ended.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := serve(ctx, at, DefaultTiming(), log); err != nil {
		log.Error("the MPS companion cannot run", "error", err)
		return 1
	}
	return 0
}

// companion serves backends. The plan of the backend that connected last is in force: in a
// takeover there are two. After the last one has disconnected, its plan stays in force for
// Timing.Abandoned, and longer while the daemon has clients.
type companion struct {
	place
	timing     Timing
	log        *slog.Logger
	supervisor *supervisor

	mu       sync.Mutex
	backends []*link
	// abandoned runs while no backend is connected.
	abandoned *time.Timer
}

// link is a connected backend.
type link struct {
	conn net.Conn
	plan *Plan // the latest; nil for none
	wake chan struct{}
}

// serve runs a companion until ctx ends. The lock of the directory makes it the only one.
func serve(ctx context.Context, at place, timing Timing, log *slog.Logger) error {
	if err := at.prepare(); err != nil {
		return err
	}
	unlock, err := at.lock(ctx)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	_ = os.Remove(at.socket()) // left by an earlier companion
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", at.socket())
	if err != nil {
		return fmt.Errorf("listen for backends: %w", err)
	}
	c := &companion{place: at, timing: timing, log: log}
	c.supervisor = newSupervisor(log, timing, at, c.notify)
	c.abandoned = time.AfterFunc(timing.Abandoned, c.abandon)
	var accepting sync.WaitGroup
	accepting.Go(func() { c.accept(listener) })
	<-ctx.Done()
	_ = listener.Close()
	c.mu.Lock()
	c.abandoned.Stop()
	for _, l := range c.backends {
		_ = l.conn.Close()
	}
	c.mu.Unlock()
	accepting.Wait()
	c.supervisor.close()
	return nil
}

// lock locks the directory. If another companion has the lock, it waits for that one's end. unlock is nil if ctx
// ended before.
func (p *place) lock(ctx context.Context) (unlock func(), err error) {
	file, err := statefile.Open(filepath.Join(p.root, p.dir, "lock"), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of the MPS control daemon: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			_ = file.Close()
			return nil, fmt.Errorf("lock the directory of the MPS control daemon: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, file.Close()
		case <-time.After(time.Second):
		}
	}
}

// accept serves connections until the listener is closed.
func (c *companion) accept(listener net.Listener) {
	var links sync.WaitGroup
	defer links.Wait()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			c.log.Warn("a backend cannot connect", "error", err)
			<-time.After(time.Second) // for instance, too many open files
			continue
		}
		links.Go(func() { c.serve(conn) })
	}
}

// serve receives the plans of a backend, and sends it the status.
func (c *companion) serve(conn net.Conn) {
	l := &link{conn: conn, wake: make(chan struct{}, 1)}
	gone := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() { c.send(l, gone) })
	messages := json.NewDecoder(conn)
	for {
		plan := new(Plan)
		if err := messages.Decode(plan); err != nil {
			break
		}
		if len(plan.Memory) == 0 {
			plan = nil
		}
		c.take(l, plan)
	}
	_ = conn.Close()
	close(gone)
	sending.Wait()
	c.drop(l)
}

// send sends the status when it has changed, and at least in every interval of checks.
func (c *companion) send(l *link, gone <-chan struct{}) {
	check := time.NewTicker(c.timing.Check)
	defer check.Stop()
	messages := json.NewEncoder(l.conn)
	for {
		_ = l.conn.SetWriteDeadline(time.Now().Add(dialLimit))
		if messages.Encode(c.supervisor.status()) != nil {
			_ = l.conn.Close()
			return
		}
		select {
		case <-gone:
			return
		case <-l.wake:
		case <-check.C:
		}
	}
}

// take stores a backend's plan.
func (c *companion) take(l *link, plan *Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.backends, l) {
		c.backends = append(c.backends, l)
	}
	l.plan = plan
	c.abandoned.Stop()
	c.supervisor.want(c.backends[len(c.backends)-1].plan)
}

// drop removes a backend that has disconnected.
func (c *companion) drop(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.backends, l)
	if at < 0 {
		return // it has sent no plan
	}
	c.backends = slices.Delete(c.backends, at, at+1)
	if n := len(c.backends); n > 0 {
		c.supervisor.want(c.backends[n-1].plan)
		return
	}
	c.abandoned.Reset(c.timing.Abandoned)
}

// abandon ends the daemon if it has no clients, after all backends have disconnected.
func (c *companion) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.backends) == 0 {
		c.supervisor.want(nil)
	}
}

// notify is called when the daemon's status has changed.
func (c *companion) notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.backends {
		poke(l.wake)
	}
}
