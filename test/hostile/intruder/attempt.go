package intruder

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Attempt is one action that an attacker would try.
type Attempt struct {
	// Name is the ID of its device.
	Name string
	// What describes it: it completes "It tries to …".
	What string
	// By has the measures of core/sandbox each of which refuses it, separated by spaces; or it is "agent".
	By string
	// Instead is, for By "agent", what the agent does about an attempt that succeeds.
	Instead string
	// Optional: it needs something that not every kernel or machine has.
	Optional bool

	// try returns nil if it succeeded, or why it was refused.
	try func(*Settings) error
}

// Group is a group of attempts.
type Group struct {
	Title    string
	Attempts []Attempt
}

// Groups are all attempts.
func Groups() []Group {
	return []Group{
		{"Kubernetes and the container runtime", kubernetes()},
		{"The agent and other backends", others()},
		{"Processes", processes()},
		{"Files and devices of the node", files()},
		{"Its own rights and limits", rights()},
		{"What the kernel counts for the node or for a user", counters()},
		{"The kernel", kernel()},
		{"Namespaces and mounts", namespaces()},
		{"The network", network()},
	}
}

// Attempts are those of all groups.
func Attempts() (all []Attempt) {
	for _, g := range Groups() {
		all = append(all, g.Attempts...)
	}
	return all
}

// plain is an attempt that needs no settings, and optional one that is also Optional.
func plain(name, what, by string, try func() error) Attempt {
	return Attempt{Name: name, What: what, By: by, try: func(*Settings) error { return try() }}
}

func optional(name, what, by string, try func() error) Attempt {
	a := plain(name, what, by, try)
	a.Optional = true
	return a
}

// allowed returns nil for the errors in after, which the kernel returns only after it has checked
// the caller's rights, and else err.
func allowed(err error, after ...unix.Errno) error {
	if errno := unix.Errno(0); errors.As(err, &errno) && slices.Contains(after, errno) {
		return nil
	}
	return err
}

// call makes a system call that x/sys has no function for. No argument is a pointer: Go keeps memory in
// place only for a conversion in the arguments of unix.Syscall itself (see unsafe.Pointer).
func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	return failure(errno)
}

// descriptor is call for one that returns a descriptor, which is closed.
func descriptor(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	fd, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	return closed(fd, errno)
}

// closed closes what a call has returned.
func closed(fd uintptr, errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// failure is nil for a call that succeeded.
func failure(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// onThread runs f on a thread that ends with it, so that the process does not keep what f
// changed of the thread.
func onThread(f func() error) error {
	failure := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		failure <- f()
	}()
	return <-failure
}

// anyOf returns nil if f succeeds for any of them, or the first error.
func anyOf[T any](of []T, f func(T) error) error {
	var first error
	for _, one := range of {
		err := f(one)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return errors.New("there is none")
	}
	return first
}

// self is for anyOf with the errors of calls.
func self(err error) error { return err }

// short is the error's name in errno(3), or as much of its text as an attribute may have.
func short(err error) string {
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return fmt.Sprintf("%.60s", err)
}
