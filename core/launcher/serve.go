package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/sandbox"
)

const (
	// maxProcesses bounds the processes at a time: one that runs, its replacement, and those that still end; and the searches.
	maxProcesses = 4
	// startLimit is how long the first message of a connection may take.
	startLimit = 10 * time.Second
)

// Options are what a launcher needs.
type Options struct {
	// Socket is the path of its socket. Its directory is made, with the group of the directory above, which the
	// agent's container shares.
	Socket string
	// Prepare returns the process of a start. Its error is for the operator.
	Prepare func(Start) (Process, error)
	// Find returns the processes that have devices open, but for those that it started.
	Find func(context.Context, Search) (openfiles.Processes, error)
	Log  *slog.Logger
}

// Process is a process that can be started once, with its process group. It is safe for concurrent use.
type Process interface {
	// Run starts the process with these files as its output, and closes them. It calls tell with a message of the sandbox
	// when the program runs, and perhaps with others later. It returns when the process and all that it left running have
	// ended. The error is why the program does not run.
	Run(stdout, stderr *os.File, tell func(message any)) (unix.WaitStatus, error)
	// Signal sends a signal to the process group. A process that is not started yet is killed at its start.
	Signal(unix.Signal)
}

// Serve starts a process for each connection, and kills it when the connection ends. When ctx ends, it accepts no more
// connections, and returns after the agent has ended the last process: in a pod that is being deleted, the agent
// decides when its backends end.
func Serve(ctx context.Context, o Options) error {
	listener, err := listen(o.Socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, maxProcesses)
	for {
		conn, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection of the agent: %w", err)
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = send(conn, answer{Error: fmt.Sprintf("the launcher runs %d processes already", maxProcesses)})
			_ = conn.Close()
			continue
		}
		running.Go(func() {
			defer func() { <-slots }()
			defer func() { _ = conn.Close() }()
			last, err := o.serve(ctx, conn)
			if errors.Is(err, io.EOF) { // it was a Check
				return
			}
			if err != nil {
				o.Log.Warn("a request of the agent failed", "error", err)
				last = answer{Error: err.Error()}
			}
			_ = send(conn, last) // the agent may have gone
		})
	}
}

// listen makes the socket, and its directory, in which only the owner and the group may write.
func listen(socket string) (*net.UnixListener, error) {
	dir := filepath.Dir(socket)
	if err := os.Mkdir(dir, 0o770); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	// Whatever the umask. The group, which the directory above passes on, is the agent's, too.
	if err := sandbox.SetMode(dir, 0o770|os.ModeSetgid); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier launcher: %w", err)
	}
	// The socket is made with its mode: a backend may put a link in its place as soon as it is there.
	defer unix.Umask(unix.Umask(0o117))
	listener, err := net.ListenUnix(network, &net.UnixAddr{Name: socket, Net: network}) //nolint:forbidigo // for its group, too, and not a stream
	if err != nil {
		return nil, fmt.Errorf("listen for the agent: %w", err)
	}
	return listener, nil
}

// serve receives a request, and returns the last answer to it: for a start, when the process has ended. The error is io.EOF
// if nothing was sent.
func (o *Options) serve(ctx context.Context, conn *net.UnixConn) (answer, error) {
	uid, err := peer(conn)
	if err != nil {
		return answer{}, fmt.Errorf("find the user of the connection: %w", err)
	}
	if uid != 0 && int(uid) != os.Geteuid() {
		return answer{}, fmt.Errorf("user %d is not the agent's", uid)
	}
	var r request
	_ = conn.SetReadDeadline(time.Now().Add(startLimit))
	files, err := receive(conn, &r)
	if err == nil && r.Search != nil {
		closeAll(files)
		found, err := o.Find(ctx, *r.Search)
		return answer{Processes: found}, err
	}
	if err == nil && (r.Start == nil || len(files) != 2) {
		err = errors.New("it has no program, or no files for the output")
	}
	if err != nil {
		closeAll(files)
		return answer{}, fmt.Errorf("receive what to start: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	process, err := o.Prepare(*r.Start)
	if err != nil {
		closeAll(files)
		return answer{}, err
	}
	go obey(conn, process)
	status, err := process.Run(files[0], files[1], func(message any) {
		text, err := json.Marshal(message)
		if err == nil {
			err = send(conn, answer{Message: text})
		}
		if err != nil {
			process.Signal(unix.SIGKILL)
		}
	})
	return answer{Status: &status}, err
}

// obey passes signals of the agent on until the connection ends, then kills the process.
func obey(conn *net.UnixConn, process Process) {
	for {
		var message signalMessage
		files, err := receive(conn, &message)
		closeAll(files)
		if err != nil {
			process.Signal(unix.SIGKILL)
			return
		}
		process.Signal(message.Signal)
	}
}
