package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// The measures.
const (
	// Descriptors: it inherits only its standard ones, and the file of a pinned
	// program.
	Descriptors = "descriptors"
	// Files: it opens only its own files and those that it declares.
	Files = "files"
	// Ioctls: it makes ioctls only on device nodes that it declares.
	Ioctls = "ioctls"
	// Processes: it reaches no process outside its sandbox by signals or abstract sockets.
	Processes = "processes"
	// Privileges: it gains none by executing a program.
	Privileges = "privileges"
	// Capabilities: it has only those that it declares.
	Capabilities = "capabilities"
	// SystemCalls: it makes only those of programs that run as services, and those that it declares.
	SystemCalls = "systemCalls"
	// Network: it reaches none.
	Network = "network"
	// User: it is not the agent's user, but one of its own.
	User = "user"
	// Mounts: it does not see the directories of kubelet, the container runtime, the agent and other
	// backends, nor the sockets in them.
	Mounts = "mounts"
	// Cgroup bounds its memory, its processes and its share of the processor.
	Cgroup = "cgroup"
	// Limits bound its core dumps, open files, the size of a file, locked memory, queued signals and timers, and
	// the processes of its user.
	Limits = "limits"
)

// errProbe is the error of a probe whose call succeeds. A probe makes a call that the sandbox must refuse, and
// returns why the measure is not in force.
var errProbe = errors.New("the kernel accepted the restriction, but does not enforce it")

// refused returns nil for one of the errors with which the kernel refuses a call.
func refused(got error, want ...error) error {
	if slices.ContainsFunc(want, func(w error) bool { return errors.Is(got, w) }) {
		return nil
	}
	if got == nil {
		return errProbe
	}
	return fmt.Errorf("%w (%w)", errProbe, got)
}

func probeFiles() error {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return refused(err, unix.EACCES)
}

// probeIoctls asks /dev/null, which every program may open, for the settings of a terminal.
func probeIoctls() error {
	fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return refused(err)
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	return refused(err, unix.EACCES)
}

// listenAbstract listens on an abstract socket.
func listenAbstract() (fd int, name string) {
	name = fmt.Sprintf("@accelmux-sandbox-%d", os.Getpid())
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil && unix.Bind(fd, &unix.SockaddrUnix{Name: name}) == nil && unix.Listen(fd, 1) == nil {
		return fd, name
	}
	return fd, ""
}

// probeProcesses signals the parent, and connects to an abstract socket that was made before the restriction.
func probeProcesses(name string) error {
	if err := refused(unix.Kill(os.Getppid(), 0), unix.EPERM); err != nil || name == "" {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return refused(unix.Connect(fd, &unix.SockaddrUnix{Name: name}), unix.EPERM)
}

// probeNetwork makes the sockets of networks.
func probeNetwork() error {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_PACKET} {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		if err := refused(err, unix.EPERM, unix.EACCES, unix.EAFNOSUPPORT); err != nil {
			return err
		}
	}
	return nil
}

// measure reads what /proc shows of the thread, right before its program starts.
func (s *shim) measure() error {
	field, err := s.statusOf()
	if err != nil {
		return err
	}
	is := func(value, want string) error {
		if value != want {
			return fmt.Errorf("the kernel reports %q, not %q", value, want)
		}
		return nil
	}
	s.measured(Privileges, "", is(field("NoNewPrivs"), "1"))
	s.measured(Capabilities, s.capabilityDetail(), s.checkCapabilities(field))
	if s.callsErr == nil {
		s.callsErr = is(field("Seccomp"), "2")
	}
	s.measured(SystemCalls, s.callsGiven, s.callsErr)
	network := "namespace of its own"
	if s.networkErr != nil {
		network = s.networkErr.Error()
	}
	s.measured(Network, network, probeNetwork())
	return nil
}
