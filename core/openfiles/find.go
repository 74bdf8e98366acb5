package openfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Limit bounds the time of a search.
	Limit = 10 * time.Second
	// MaxDevices bounds the devices of a search.
	MaxDevices = 4096
	// maxProcesses bounds the processes of an answer.
	maxProcesses = 256
	// A search rests after each slice of processor time, rests times as long: so it uses a quarter of one processor.
	slice = 5 * time.Millisecond
	rests = 3
	// chunk is the number of descriptors that are read at a time.
	chunk = 256
	// initial is the initial PID namespace, whose inode the kernel has fixed (PROC_PID_INIT_INO in
	// include/linux/proc_ns.h).
	initial = "pid:[4026531836]"
)

// Device is a device of the kernel.
type Device struct {
	Block bool   `json:"block,omitempty"`
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

// Finder makes searches, one at a time. It is safe for concurrent use.
type Finder struct {
	// busy is full while a search is in progress, also one that was abandoned and hangs in the kernel.
	busy chan struct{}
}

// New returns a finder. A process needs one.
func New() *Finder { return &Finder{busy: make(chan struct{}, 1)} }

// Find returns the processes of a procfs that have one of the devices open, but for own ones, in ascending order, at most 256. It ends
// with ctx, at the latest after Limit, even if the kernel does not answer. It is an error if it is not known which processes
// have a device open: if not all processes of the node can be seen or inspected, or not in that time. Then the error names the
// process with the most descriptors.
func (f *Finder) Find(ctx context.Context, procfs string, devices []Device, own func(pid int) bool) (Processes, error) {
	if len(devices) > MaxDevices {
		return nil, fmt.Errorf("there are %d devices; at most %d are possible", len(devices), MaxDevices)
	}
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	select {
	case f.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("an earlier search of the processes has not ended: %w", ctx.Err())
	}
	s := &search{procfs: procfs, devices: map[Device]bool{}, own: own}
	for _, d := range devices {
		s.devices[d] = true
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-f.busy }()
		done <- s.run(ctx)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return s.result(ctx, err)
}

// search is one search.
type search struct {
	procfs  string
	devices map[Device]bool
	own     func(pid int) bool
	// rested is the processor time of the thread at the end of the last rest.
	rested time.Duration

	mu    sync.Mutex
	found []int
	// at is the process that is inspected, most the one with the most descriptors, files.
	at, most, files int
}

// result returns what was found. One process that has a device open is an answer, whatever else is not known.
func (s *search) result(ctx context.Context, err error) (all Processes, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.found)
	for _, pid := range s.found {
		all = append(all, named(s.procfs, pid))
	}
	switch {
	case len(all) > 0 || err == nil:
		return all, nil
	case ctx.Err() != nil && s.most != 0:
		err = fmt.Errorf("not all processes could be inspected in time: %s has %d open files", named(s.procfs, s.most), s.files)
		if s.at != s.most {
			err = fmt.Errorf("%w; the search stopped at %s", err, named(s.procfs, s.at))
		}
		return nil, fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return nil, err
}

func (s *search) run(ctx context.Context) error {
	runtime.LockOSThread() // whose processor time is measured
	defer runtime.UnlockOSThread()
	s.rested = used()
	if err := s.seesAll(); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.procfs)
	if err != nil {
		return fmt.Errorf("list the processes: %w", err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		s.mu.Lock()
		s.at = pid
		s.mu.Unlock()
		open, err := s.process(ctx, filepath.Join(s.procfs, entry.Name()), pid)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrPermission):
			return fmt.Errorf("the open files of process %s: %w: that needs CAP_SYS_PTRACE", named(s.procfs, pid), err)
		case err != nil:
			return fmt.Errorf("the open files of process %s: %w", named(s.procfs, pid), err)
		}
		if open && !s.own(pid) {
			s.mu.Lock()
			s.found = append(s.found, pid)
			s.mu.Unlock()
		}
		if len(s.found) == maxProcesses {
			return nil
		}
	}
	return nil
}

// seesAll returns an error unless the processes of the procfs are all of the node: this process is in the initial PID
// namespace, and so is the procfs, which hides none (hidepid of proc(5)).
func (s *search) seesAll() error {
	namespace, err := os.Readlink(filepath.Join(s.procfs, "self/ns/pid"))
	if err != nil || namespace != initial {
		return errors.New("not all processes of the node are visible: run in the host's PID namespace (hostPID)")
	}
	if _, err := os.Stat(filepath.Join(s.procfs, "1")); err != nil {
		return fmt.Errorf("%s hides processes (hidepid): that needs CAP_SYS_PTRACE", s.procfs)
	}
	return nil
}

// process reports whether a process with the directory dir has one of the devices open. The first thread of a process may
// have ended before the others: then only these have descriptors.
func (s *search) process(ctx context.Context, dir string, pid int) (bool, error) {
	open, files, err := s.descriptors(ctx, filepath.Join(dir, "fd"), pid)
	if open || files > 0 || err != nil {
		return open, err
	}
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return false, unlessGone(err)
	}
	for _, thread := range threads {
		open, files, err = s.descriptors(ctx, filepath.Join(dir, "task", thread.Name(), "fd"), pid)
		if open || files > 0 || err != nil {
			return open, err
		}
	}
	return false, nil
}

// descriptors reports whether one of the descriptors in a directory is of one of the devices, and how many were inspected.
func (s *search) descriptors(ctx context.Context, dir string, pid int) (open bool, files int, err error) {
	list, err := os.Open(dir)
	if err != nil {
		return false, 0, unlessGone(err)
	}
	defer func() { _ = list.Close() }()
	if info, err := list.Stat(); err == nil {
		s.count(pid, int(info.Size())) // the number of descriptors since Linux 6.2, 0 before
	}
	for {
		names, err := list.Readdirnames(chunk)
		if len(names) == 0 {
			return false, files, unlessGone(err)
		}
		for _, name := range names {
			device, is, err := deviceOf(int(list.Fd()), name)
			if err != nil {
				return false, files, err
			}
			if is && s.devices[device] {
				return true, files, nil
			}
		}
		files += len(names)
		s.count(pid, files)
		if !s.rest(ctx) {
			return false, files, ctx.Err()
		}
	}
}

// deviceOf returns the device of which a descriptor is, if it is of one. It does not ask the file system, which may be that
// of a process or of a machine that does not answer (AT_STATX_DONT_SYNC of statx(2)): those can have no devices.
func deviceOf(dir int, name string) (d Device, is bool, err error) {
	var info unix.Statx_t
	err = unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &info)
	switch kind := info.Mode & unix.S_IFMT; {
	case errors.Is(err, os.ErrPermission):
		return Device{}, false, err
	case err != nil: // closed meanwhile, or of such a file system
		return Device{}, false, nil //nolint:nilerr // it is of no device that answers
	default:
		return Device{kind == unix.S_IFBLK, info.Rdev_major, info.Rdev_minor}, kind == unix.S_IFCHR || kind == unix.S_IFBLK, nil
	}
}

// count records that a process has so many descriptors.
func (s *search) count(pid, files int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == 0 || files > s.files {
		s.most, s.files = pid, files
	}
}

// rest lets the processor rest if it is time for that. It reports whether ctx goes on.
func (s *search) rest(ctx context.Context) bool {
	worked := used() - s.rested
	if worked < slice {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(rests * worked)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	s.rested = used()
	return true
}

// used is the processor time of the thread.
func used() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// unlessGone returns nil for the end of a list, and if the error means that a process has ended.
func unlessGone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
