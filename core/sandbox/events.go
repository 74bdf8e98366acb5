package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/wake"
)

// maxWatches bounds the directories that are watched for one process; fs.inotify.max_user_watches counts them for the user.
const maxWatches = 1024

// events are the kernel's events of files that appear where patterns look for them:
//
//   - inotify(7) for what is made in a directory, or renamed into it, such as nodes in devtmpfs. All directories that lead to
//     a match and exist are watched, so that one that appears is watched, too. It has no events of sysfs. Package fsnotify
//     is not used, as it asks for IN_MODIFY, too: most kernels send that for each write to /dev/null by anyone ("fsnotify: do
//     not generate ACCESS/MODIFY events on child for special files", 2025).
//   - uevents for sysfs, where a device or a driver appears. Alone they would not suffice: NVIDIA's nodes are made by a
//     program, and links by udev.
//   - /proc/self/mountinfo, which is ready when a mount changes (proc_pid_mountinfo(5)): a driver's container mounts its root
//     when the driver is loaded.
type events struct {
	changed chan struct{}
	// err is why there are no events of some directories; nil if there are.
	err     error
	inotify source
	uevents source
	mounts  source
	readers sync.WaitGroup

	mu sync.Mutex
	// names are parts of patterns that names of new files are compared with, by inotify's number of the directory.
	names map[int32][]string
}

// source is an open file with events. The number is not asked of the file, which would make it block.
type source struct {
	fd   int
	file *os.File // nil if there is none
}

// openEvents begins with mounts. Directories are watched by watch.
func openEvents() *events {
	e := &events{changed: make(chan struct{}, 1), names: map[int32][]string{}}
	if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		e.err = fmt.Errorf("watch directories: %w (fs.inotify.max_user_instances)", err)
	} else {
		e.read(&e.inotify, fd, e.isNamed)
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		e.err = errors.Join(e.err, fmt.Errorf("watch mounts: %w", err))
		return e
	}
	e.mounts.file = mounts
	e.readers.Go(func() {
		conn, err := mounts.SyscallConn()
		if err != nil {
			return // it is closed
		}
		// Read waits again whenever the function returns false. Its first call is before it has waited.
		first := true
		_ = conn.Read(func(uintptr) bool {
			if !first {
				wake.Send(e.changed)
			}
			first = false
			return false
		})
	})
	return e
}

// read reads messages from a descriptor that does not block, until close.
func (e *events) read(s *source, fd int, isRelevant func(message []byte) bool) {
	*s = source{fd, os.NewFile(uintptr(fd), "events")}
	e.readers.Go(func() {
		buffer := make([]byte, 16<<10)
		for {
			n, err := s.file.Read(buffer)
			lost := errors.Is(err, unix.ENOBUFS)
			if err != nil && !lost {
				return
			}
			if lost || isRelevant(buffer[:n]) {
				wake.Send(e.changed)
			}
		}
	})
}

func (e *events) close() {
	for _, s := range []source{e.inotify, e.uevents, e.mounts} {
		_ = s.file.Close() // also of a nil file; it was only read
	}
	e.readers.Wait()
}

// watch watches the directories in which matches would appear, and no others, and reports whether there are some that it
// did not watch before.
func (e *events) watch(all map[string]found) (more bool) {
	dirs := map[string][]string{}
	for _, f := range all {
		for _, s := range f.steps {
			if !slices.Contains(dirs[s.dir], s.name) {
				dirs[s.dir] = append(dirs[s.dir], s.name)
			}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.names
	e.names = map[int32][]string{}
	for dir, names := range dirs {
		var system unix.Statfs_t
		switch err := unix.Statfs(dir, &system); {
		case err != nil: // it does not exist
		case system.Type == unix.SYSFS_MAGIC:
			more = e.listen() || more
		case len(e.names) >= maxWatches:
			e.err = fmt.Errorf("more than %d directories must be watched", maxWatches)
		case e.inotify.file != nil:
			e.add(dir, names)
		}
	}
	for number := range e.names {
		if _, ok := before[number]; !ok {
			more = true
		}
	}
	for number := range before {
		if _, ok := e.names[number]; !ok {
			_, _ = unix.InotifyRmWatch(e.inotify.fd, uint32(number)) //nolint:gosec // as it was returned; an error is that the directory is gone
		}
	}
	return more
}

// add watches a directory. The caller holds the mutex.
func (e *events) add(dir string, names []string) {
	number, err := unix.InotifyAddWatch(e.inotify.fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR)
	switch {
	case err == nil: // two paths may lead to one directory
		e.names[int32(number)] = append(e.names[int32(number)], names...) //nolint:gosec // inotify's numbers are of this size
	case errors.Is(err, unix.ENOSPC):
		e.err = fmt.Errorf("watch %s: %w (fs.inotify.max_user_watches)", dir, err)
	case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR):
		e.err = fmt.Errorf("watch %s: %w", dir, err)
	}
}

// listen receives uevents, and reports whether it did not before. A pod receives them in its network namespace: those of
// devices but network interfaces are sent to all that the initial user namespace owns (lib/kobject_uevent.c).
func (e *events) listen() bool {
	if e.uevents.file != nil {
		return false
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		e.err = fmt.Errorf("receive the kernel's device events: %w", err)
		return false
	}
	e.read(&e.uevents, fd, isArrival)
	return true
}

// isArrival reports whether a uevent is of a device, driver or module that has appeared, or of a device that a driver took.
// Messages are "action@path", and more.
func isArrival(message []byte) bool {
	action, _, _ := bytes.Cut(message, []byte("@"))
	return slices.Contains([]string{"add", "bind", "move", "online"}, string(action))
}

// isNamed reports whether one of inotify's messages has a name that a pattern looks for, or that messages were lost.
func (e *events) isNamed(messages []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(messages) >= unix.SizeofInotifyEvent {
		order := binary.NativeEndian
		number, mask := int32(order.Uint32(messages)), order.Uint32(messages[4:]) //nolint:gosec // it is signed, -1 for those that were lost
		end := min(unix.SizeofInotifyEvent+int(order.Uint32(messages[12:])), len(messages))
		name := string(bytes.TrimRight(messages[unix.SizeofInotifyEvent:end], "\x00"))
		messages = messages[end:]
		if mask&unix.IN_Q_OVERFLOW != 0 || slices.ContainsFunc(e.names[number], func(pattern string) bool {
			matches, err := path.Match(pattern, name)
			return err == nil && matches
		}) {
			return true
		}
	}
	return false
}
