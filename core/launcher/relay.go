package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/text"
)

// ErrAway is wrapped by the error of a launcher that does not answer yet.
var ErrAway = errors.New("its container does not answer")

// Check returns why the launcher at a socket cannot be used; nil if it can. The error wraps ErrAway if it is worth
// trying again.
func Check(socket string) error {
	conn, err := dial(socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Relay has the launcher at a socket start a process with this process's standard output and standard error. It calls
// tell with a message of the sandbox when the program runs, and perhaps with more, passes SIGTERM, SIGINT, SIGHUP and
// SIGQUIT on, and returns how the process ended. The error is for the operator: the program does not run, or the connection was lost,
// after which the launcher kills the process.
//
// The launcher must be run by root or by the owner of the socket's directory, in which others may not write.
func Relay(socket string, start Start, tell func(message json.RawMessage)) (unix.WaitStatus, error) {
	conn, err := dial(socket)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	defer close(signals)
	defer signal.Stop(signals)
	if err := send(conn, request{Start: &start}, os.Stdout, os.Stderr); err != nil {
		return 0, fmt.Errorf("send the start to the launcher at %s: %w", socket, err)
	}
	go func() {
		for s := range signals {
			if number, ok := s.(syscall.Signal); ok {
				_ = send(conn, signalMessage{number}) // if it fails, so does receive
			}
		}
	}()
	for {
		var a answer
		unexpected, err := receive(conn, &a)
		closeAll(unexpected)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
			return 0, fmt.Errorf("the launcher at %s has ended, and its processes with it: see the log of the backend's container", socket)
		case err != nil:
			return 0, fmt.Errorf("read the answer of the launcher at %s: %w", socket, err)
		case a.Error != "":
			return 0, errors.New(a.Error)
		case a.Status != nil:
			return *a.Status, nil
		}
		tell(a.Message)
	}
}

// maxError bounds the error of a search, in bytes.
const maxError = 1024

// Find has the launcher at a socket search the processes that have devices open, but for those that it started itself. Names
// are as the launcher sent them: see [openfiles.Process].
func Find(ctx context.Context, socket string, s Search) (openfiles.Processes, error) {
	conn, err := dial(socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := send(conn, request{Search: &s}); err != nil {
		return nil, fmt.Errorf("ask the launcher at %s for processes: %w", socket, err)
	}
	var a answer
	unexpected, err := receive(conn, &a)
	closeAll(unexpected)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the launcher at %s did not answer in time: %w", socket, ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("read the answer of the launcher at %s: %w", socket, err)
	case a.Error != "":
		return nil, errors.New(text.Printable(a.Error, maxError))
	}
	return a.Processes, nil
}

// EndLike ends this process with the wait status of another one.
func EndLike(status unix.WaitStatus) {
	if status.Signaled() {
		signal.Reset()
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		_ = unix.Kill(unix.Getpid(), status.Signal())
	}
	unix.Exit(status.ExitStatus())
}

// dial connects to a launcher and checks who runs it.
func dial(socket string) (*net.UnixConn, error) {
	dir := filepath.Dir(socket)
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return nil, fmt.Errorf("%w: find the directory that it shares, %s: %w; is it running?", ErrAway, dir, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || stat.Mode&0o002 != 0 {
		return nil, fmt.Errorf("%s must be a directory in which others may not write, such as an emptyDir of a pod with fsGroup", dir)
	}
	conn, err := net.DialUnix(network, nil, &net.UnixAddr{Name: socket, Net: network})
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("%w: %w; is it running?", ErrAway, err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the launcher at %s: %w", socket, err)
	}
	uid, err := peer(conn)
	if err == nil && uid != 0 && uid != stat.Uid {
		err = fmt.Errorf("it is run by user %d, and not by root or the owner of its directory", uid)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("check the launcher at %s: %w", socket, err), conn.Close())
	}
	return conn, nil
}
