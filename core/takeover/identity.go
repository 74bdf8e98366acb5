package takeover

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/procfs"
)

// ErrNoAgent is in the error for a process that connects or locks like an agent, but is not
// one.
var ErrNoAgent = errors.New("is not an accelmux agent")

// checkPeer checks that the process at the other end of a connection is an agent
// (SO_PEERCRED, unix(7): the process that connected, or the one that listens).
func checkPeer(conn net.Conn) error {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%w: it is connected by %s", ErrNoAgent, conn.LocalAddr().Network())
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("find the process at the other end: %w", failed)
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("process %d of user %d %w: only processes of root and user %d can be", peer.Pid, peer.Uid, ErrNoAgent, os.Geteuid())
	}
	return checkProcess(int(peer.Pid))
}

// checkProcess checks that a process is an agent: it runs the same program as this one, in
// any version, and was not started by one of this agent's backends, which could run that
// program, too. The ID of an agent in another container is 0 here, unless the two share the
// node's process IDs. It is accepted: no backend of this agent runs there. A process with
// more rights than this one, whose program cannot be read, is accepted, too.
func checkProcess(pid int) error {
	if pid <= 0 || pid == os.Getpid() {
		return nil
	}
	at, err := pid, error(nil)
	for at > 0 && err == nil {
		if _, at, err = procfs.Stat(procfs.Dir(at)); at == os.Getpid() {
			return fmt.Errorf("process %d (%s) %w: one of this agent's backends started it", pid, programOf(pid), ErrNoAgent)
		}
	}
	own, ok := debug.ReadBuildInfo()
	if !ok {
		return nil // built without build information: there is nothing to compare
	}
	info, err := buildinfo.ReadFile(filepath.Join(procfs.Dir(pid), "exe"))
	switch {
	case errors.Is(err, os.ErrPermission):
		return nil
	case err == nil && info.Path == own.Path:
		return nil
	}
	return fmt.Errorf("process %d (%s) %w: end it", pid, programOf(pid), ErrNoAgent)
}

// programOf returns the path of a process's program, for errors.
func programOf(pid int) string {
	path, err := os.Readlink(filepath.Join(procfs.Dir(pid), "exe"))
	if err != nil {
		return "of an unknown program"
	}
	return path
}
