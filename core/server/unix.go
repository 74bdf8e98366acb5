package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// MaxPath is the longest path of a unix socket, in bytes: sun_path in unix(7) has 108 with its
// final zero.
const MaxPath = 107

// Unix opens a unix socket that only the agent's user, and root, can connect to: its file has mode
// 0600 from its first moment on, whatever the umask, as bind(2) makes it with the mode that the
// socket itself has. The path has at most [MaxPath] bytes, and no file may be there. Closing the
// listener removes the file, unless SetUnlinkOnClose changes that.
func Unix(path string) (*net.UnixListener, error) {
	private := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		controlErr := conn.Control(func(descriptor uintptr) { err = syscall.Fchmod(int(descriptor), 0o600) })
		return errors.Join(controlErr, err)
	}}
	listener, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	socket, ok := listener.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s is no unix socket but a %T", path, listener), listener.Close())
	}
	return socket, nil
}
