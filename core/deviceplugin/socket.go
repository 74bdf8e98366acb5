package deviceplugin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/server"
)

const (
	socketPrefix = "accelmux-"
	socketSuffix = ".sock"
	// minSlug is the length of a slug that is only a hash; maxSlug bounds the others.
	minSlug = 8
	maxSlug = 32
	// hidden is the prefix of a name until the socket listens.
	hidden = "."
	// processLength is the length of the process's ID in a name.
	processLength = 8
	// restOfName is the length of a name without the slug: the prefixes, the process's ID, up
	// to 10 digits, two dashes and the suffix.
	restOfName = len(hidden+socketPrefix) + processLength + 10 + 2 + len(socketSuffix)
)

// sockets makes socket names. No name is made twice: kubelet 1.37 must never get one socket
// path in two registrations.
type sockets struct {
	dirs    []string
	process string
	last    atomic.Uint32
	remove  func(path string) error // os.Remove, except in tests
}

func newSockets(dirs ...string) (*sockets, error) {
	for _, dir := range dirs {
		if room := server.MaxPath - len(dir) - 1 - restOfName; room < minSlug {
			return nil, fmt.Errorf("the directory %s is too long for unix sockets in it: it must have at most %d characters",
				dir, server.MaxPath-1-restOfName-minSlug)
		}
	}
	var id [processLength / 2]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("make a name for this process: %w", err)
	}
	return &sockets{dirs: dirs, process: hex.EncodeToString(id[:]), remove: os.Remove}, nil
}

// next returns a new path in dir, which is one of those of newSockets.
func (s *sockets) next(dir, resource string) string {
	return fmt.Sprintf("%s%s-%d%s", s.path(dir, resource), s.process, s.last.Add(1), socketSuffix)
}

// path returns the beginning of the paths of the resource's sockets.
func (s *sockets) path(dir, resource string) string {
	room := min(maxSlug, server.MaxPath-len(dir)-1-restOfName)
	return filepath.Join(dir, socketPrefix+slug(resource, room)+"-")
}

// slug returns a resource name in a form for a file name or the name part of an annotation
// key, of at most limit bytes (8 or more). A name that is too long is cut and gets a hash; with
// no room for both it is only the hash.
func slug(resource string, limit int) string {
	plain := strings.ReplaceAll(resource, "/", "_")
	if len(plain) <= limit {
		return plain
	}
	sum := sha256.Sum256([]byte(resource))
	hash := hex.EncodeToString(sum[:minSlug/2])
	if limit < len(hash)+2 {
		return hash
	}
	return plain[:limit-len(hash)-1] + "-" + hash
}

// removeStale removes sockets of accelmux whose process is dead. It keeps those that accept
// connections, and those of this process. The error has the directories that it could not
// read and the sockets that it could not remove.
func (s *sockets) removeStale(ctx context.Context, log *slog.Logger) error {
	var errs []error
	for _, dir := range s.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("list stale sockets: %w", err))
			}
			continue
		}
		for _, entry := range entries {
			if !s.isOthers(entry) {
				continue
			}
			path := filepath.Join(dir, entry.Name())
			if err := kubeletdir.Dial(ctx, path); !errors.Is(err, syscall.ECONNREFUSED) {
				continue
			}
			if err := s.remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove a stale socket: %w", err))
				continue
			}
			log.Info("removed the socket of a dead process", "socket", path)
		}
	}
	return errors.Join(errs...)
}

// OtherSockets returns the sockets in kubelet's directories on which other processes listen,
// whatever they serve, except kubelet's own.
func (p *Plugin) OtherSockets(ctx context.Context) []string {
	var found []string
	for _, dir := range p.sockets.dirs {
		entries, _ := os.ReadDir(dir) // registration reports a directory that cannot be read
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if entry.Type()&fs.ModeSocket != 0 && path != p.watch.socket && !p.sockets.isOwn(entry.Name()) && kubeletdir.Dial(ctx, path) == nil {
				found = append(found, path)
			}
		}
	}
	return found
}

// isOthers reports whether this is a socket of another accelmux process.
func (s *sockets) isOthers(entry fs.DirEntry) bool {
	name := strings.TrimPrefix(entry.Name(), hidden)
	return entry.Type()&fs.ModeSocket != 0 && strings.HasPrefix(name, socketPrefix) && strings.HasSuffix(name, socketSuffix) &&
		!s.isOwn(name)
}

// isOwn reports whether this is the name of one of this process's sockets.
func (s *sockets) isOwn(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, hidden), socketPrefix) && strings.Contains(name, "-"+s.process+"-")
}

// listen returns a listener on a socket whose path exists only when it accepts connections: it
// is bound to a hidden name and renamed. A file that kubelet finds in plugins_registry after
// bind and before listen refuses the connection, and gRPC tries again a second later. Kubelet
// ignores names that begin with a dot.
func listen(path string) (*net.UnixListener, error) {
	before := filepath.Join(filepath.Dir(path), hidden+filepath.Base(path))
	listener, err := server.Unix(before)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(before, path); err != nil {
		_ = listener.Close() // removes the file
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	return listener, nil
}
