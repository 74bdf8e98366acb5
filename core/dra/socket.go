package dra

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/server"
)

// socket is a listening unix socket. Close removes it, unless another program has replaced it.
type socket struct {
	*net.UnixListener
	path string
	made kubeletdir.FileID
}

// listen makes a socket, in place of one on which no process listens.
func listen(ctx context.Context, path string) (*socket, error) {
	if len(path) > server.MaxPath {
		return nil, fmt.Errorf("the path of the socket %s has %d characters, at most %d are possible: give the driver a shorter name (dra.driver of the backend)", path, len(path), server.MaxPath)
	}
	if kubeletdir.Dial(ctx, path) == nil {
		return nil, fmt.Errorf("another program serves a driver of that name on this node, at %s, and kubelet uses the one that registered last: "+
			"remove it, or give this one another name (dra.driver of the backend)", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := server.Unix(path)
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	return &socket{listener, path, kubeletdir.Identify(path)}, nil
}

// isInPlace reports whether the path is still that of this socket.
func (s *socket) isInPlace() bool {
	return s.made != kubeletdir.FileID{} && s.made == kubeletdir.Identify(s.path)
}

// Close implements net.Listener.
func (s *socket) Close() error {
	var err error
	if s.isInPlace() {
		err = os.Remove(s.path)
	}
	return errors.Join(err, s.UnixListener.Close())
}
