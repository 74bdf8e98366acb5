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
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxProcesses bounds the processes at a time: one that runs, and its replacement.
	maxProcesses = 4
	// startLimit is how long a connection may wait with its first message.
	startLimit = 10 * time.Second
)

// Options are what a launcher needs.
type Options struct {
	// Socket is the path of its socket. Its directory is made, for the owner and the group of the directory above,
	// which the agent's container shares.
	Socket string
	// Prepare returns the process of a start. Its error is for the operator.
	Prepare func(Start) (Prepared, error)
	Log     *slog.Logger
}

// Prepared is a process that can be started.
type Prepared struct {
	// Cmd has no files for the output, and no process attributes.
	Cmd *exec.Cmd
	// Start starts Cmd, and Ended waits for it and ends what it left running.
	Start func() error
	Ended func()
	// Began is called when the process was started, with the error of that. It returns what was reported of the
	// sandbox as soon as the program runs, or why it does not: then the process ends.
	Began func(error) (report json.RawMessage, err error)
}

// Serve starts a process for each connection, and kills it when the connection ends. When ctx has ended it accepts no
// more, and returns when the agent has ended its last process: in a pod that is being deleted, the agent decides when
// its backends end.
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
			status, err := o.serve(conn)
			ended := answer{Status: &status}
			if errors.Is(err, io.EOF) { // it only checked that somebody answers
				return
			}
			if err != nil {
				o.Log.Warn("the backend was not started", "error", err)
				ended = answer{Error: err.Error()}
			}
			_ = send(conn, ended) // an agent that has gone needs none
		})
	}
}

// listen makes the directory of the socket, in which nobody but the owner and the group may write, and the socket.
func listen(socket string) (*net.UnixListener, error) {
	dir := filepath.Dir(socket)
	if err := os.Mkdir(dir, 0o770); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	// Whatever the umask. The group, which the directory above passes on, is the agent's, too.
	if err := os.Chmod(dir, 0o770|os.ModeSetgid); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier launcher: %w", err)
	}
	listener, err := net.ListenUnix(network, &net.UnixAddr{Name: socket, Net: network}) //nolint:forbidigo // for its group, too, and not a stream
	if err != nil {
		return nil, fmt.Errorf("listen for the agent: %w", err)
	}
	if err := os.Chmod(socket, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("let the agent connect: %w", err), listener.Close())
	}
	return listener, nil
}

// serve receives a start, runs the process, and returns how it ended.
func (o *Options) serve(conn *net.UnixConn) (unix.WaitStatus, error) {
	uid, err := peer(conn)
	if err != nil {
		return 0, fmt.Errorf("find who connects: %w", err)
	}
	if uid != 0 && int(uid) != os.Geteuid() {
		return 0, fmt.Errorf("the user %d is not the agent's", uid)
	}
	var start Start
	_ = conn.SetReadDeadline(time.Now().Add(startLimit))
	files, err := receive(conn, &start)
	defer closeAll(files)
	if err != nil {
		return 0, fmt.Errorf("receive what to start: %w", err)
	}
	if len(files) != 2 {
		return 0, errors.New("the start has no files for the output")
	}
	_ = conn.SetReadDeadline(time.Time{})
	p := &launched{conn: conn}
	if p.Prepared, err = o.Prepare(start); err != nil {
		return 0, err
	}
	p.Cmd.Stdout, p.Cmd.Stderr = files[0], files[1]
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	go p.obey()
	return p.run()
}

// launched is a process and its group.
type launched struct {
	Prepared
	conn *net.UnixConn

	mu     sync.Mutex
	pid    int  // 0 before the start
	doomed bool // the agent has gone
	reaped bool
}

// obey sends the signals that the agent asks for, until the connection ends. Then it kills the group.
func (p *launched) obey() {
	for {
		var message signalMessage
		files, err := receive(p.conn, &message)
		closeAll(files)
		if err != nil {
			p.signal(syscall.SIGKILL)
			return
		}
		p.signal(message.Signal)
	}
}

func (p *launched) signal(signal unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doomed = p.doomed || signal == syscall.SIGKILL
	if p.pid != 0 && !p.reaped {
		_ = syscall.Kill(-p.pid, signal)
	}
}

// run starts the process, answers when its program runs, and waits for the end. The thread is locked because the kernel
// sends the parent-death signal when it ends (PR_SET_PDEATHSIG(2const)).
func (p *launched) run() (unix.WaitStatus, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.Start()
	if err == nil {
		p.mu.Lock()
		p.pid = p.Cmd.Process.Pid
		if p.doomed {
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
		p.mu.Unlock()
	}
	report, failed := p.Began(err)
	if err != nil {
		return 0, fmt.Errorf("start the program: %w", err)
	}
	if failed == nil {
		_ = send(p.conn, answer{Report: report}) // if it fails, obey ends the process
	}
	for errors.Is(unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	// While the leader is a zombie its ID is not used again, so that this reaches only the rest of its group.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	p.Ended()
	status, _ := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return unix.WaitStatus(status), failed
}
