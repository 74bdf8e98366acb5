package deviceplugin

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// OtherSocket is a socket in one of kubelet's directories that another process serves, as
// accelmux does.
type OtherSocket struct {
	Path string
	// PID is who listens, 0 if that is a process that cannot be seen from here: one of
	// another PID namespace.
	PID int
	// Resource is that of this process that the name of the socket stands for; "" if it
	// has none of that name.
	Resource string
}

// OtherSockets looks for sockets of other agents that are alive, sorted by path. During a
// hand-over there are some for a moment. Of other plugins nothing can be said: no call of
// the API tells what they serve, and to ask one for its list might take away news that
// are kubelet's.
func (p *Plugin) OtherSockets(ctx context.Context) []OtherSocket {
	var found []OtherSocket
	for path, entry := range p.sockets.all() {
		if !p.sockets.isOthers(entry) {
			continue
		}
		if pid, err := listener(ctx, path); err == nil {
			found = append(found, OtherSocket{Path: path, PID: pid, Resource: p.named(path)})
		}
	}
	slices.SortFunc(found, func(a, b OtherSocket) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// Listening are the sockets in kubelet's directories that others listen on, whatever they
// serve: not kubelet, and not this process.
func (p *Plugin) Listening(ctx context.Context) []string {
	var found []string
	for path, entry := range p.sockets.all() {
		if path != p.watch.socket && !p.sockets.isOwn(entry.Name()) && accepts(ctx, path) == nil {
			found = append(found, path)
		}
	}
	return found
}

// Renew has kubelet take a resource anew, by a new socket: it may have the list of another
// plugin that has left. The one before serves until kubelet has connected. It does nothing
// about a resource that is not registered.
func (p *Plugin) Renew(resource string) {
	p.mu.Lock()
	a := p.adverts[resource]
	p.mu.Unlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	a.renew = a.current != nil
	a.mu.Unlock()
	poke(a.wake)
}

// all are the sockets in kubelet's directories. Of a directory that cannot be read there
// are none: whoever needs it tells.
func (s *sockets) all() iter.Seq2[string, fs.DirEntry] {
	return func(yield func(string, fs.DirEntry) bool) {
		for _, dir := range s.dirs {
			entries, _ := os.ReadDir(dir)
			for _, entry := range entries {
				if entry.Type()&fs.ModeSocket != 0 && !yield(filepath.Join(dir, entry.Name()), entry) {
					return
				}
			}
		}
	}
}

// named is the resource whose sockets have names like that.
func (p *Plugin) named(path string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.adverts {
		if p.sockets.isOf(path, name) {
			return name
		}
	}
	return ""
}

// listener is the process that listens on a unix socket; 0 if it cannot be seen.
func listener(ctx context.Context, path string) (pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, acceptLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	// Of a socket that was connected to, these are who called listen (unix(7)).
	var peer *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, asked); err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}
