package intruder

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// manySignals is more than a backend may queue.
	manySignals = 4096
	// manyWatches and manyPipes are few enough for any machine.
	manyWatches, manyPipes = 256, 64
)

// counters are attempts to use up what the kernel counts for the whole node, or for a user: root's is that of
// kubelet, the runtime and the agent. docs/security.md has the limits and where the kernel documents them. The
// kernel's keyrings, BPF, performance events, userfaultfd and io_uring are among the attempts on the kernel,
// open files and locked memory among those on the limits.
func counters() []Attempt {
	return []Attempt{
		plain("aio", "use up the node's asynchronous I/O (fs.aio-max-nr)", "systemCalls", func() error {
			var context uintptr
			if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0); errno != 0 {
				return errno
			}
			return call(unix.SYS_IO_DESTROY, context)
		}),
		plain("inotify", "use up root's inotify instances and watches", "systemCalls", func() error {
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}),
		optional("fanotify", "use up root's fanotify groups and marks", "systemCalls", func() error {
			fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID|unix.FAN_CLOEXEC, uint(os.O_RDONLY))
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}),
		optional("message-queue", "use up the POSIX message queues", "systemCalls", messageQueue),
		optional("system-v", "use up the System V shared memory, semaphores and queues", "systemCalls", systemV),
		plain("huge-pages", "use up the node's huge pages", "systemCalls", hugePages),
		optional("signals", "use up the signals that may be queued for root", "limits", queueSignals),
		optional("timers", "use up root's POSIX timers, which count as queued signals", "limits", timers),
		optional("descriptors-in-flight", "use up the descriptors that may be in flight between root's sockets", "limits", sendDescriptors),
		optional("terminals", "use up the node's pseudoterminals (kernel.pty.max)", "files", func() error { return openFor("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY) }),
		{Name: "epoll", What: "use up root's epoll watches, 4% of the node's memory", By: "agent", Instead: "each takes as much of the backend's own memory", try: func(*Settings) error { return watch() }},
		{Name: "pipes", What: "use up the pages of root's pipes", By: "agent", Instead: "beyond 64 MiB, a pipe of a process without capabilities has one page", try: func(*Settings) error { return pipes() }},
	}
}

// messageQueue makes and removes a queue.
func messageQueue() error {
	name, err := unix.BytePtrFromString("intruder")
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	_, _, errno = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
	return errors.Join(unix.Close(int(fd)), failure(errno))
}

// systemV makes and removes one of each kind.
func systemV() error {
	return anyOf([]struct {
		get, control uintptr
		remove       []uintptr // the control's arguments after the ID
		size         uintptr
	}{
		{unix.SYS_SHMGET, unix.SYS_SHMCTL, []uintptr{unix.IPC_RMID}, 4096},
		{unix.SYS_SEMGET, unix.SYS_SEMCTL, []uintptr{0, unix.IPC_RMID}, 1},
		{unix.SYS_MSGGET, unix.SYS_MSGCTL, []uintptr{unix.IPC_RMID}, 0o600},
	}, func(kind struct {
		get, control uintptr
		remove       []uintptr
		size         uintptr
	}) error {
		id, _, errno := unix.Syscall(kind.get, unix.IPC_PRIVATE, kind.size, 0o600)
		if errno != 0 {
			return errno
		}
		return call(kind.control, append([]uintptr{id}, kind.remove...)...)
	})
}

// hugePages succeeds also where the machine has none: the kernel has looked for them.
func hugePages() error {
	const size = 2 << 20
	block, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB)
	if err == nil {
		return unix.Munmap(block)
	}
	if allowed(err, unix.ENOMEM) == nil {
		return nil
	}
	fd, err := unix.MemfdCreate("intruder", unix.MFD_CLOEXEC|unix.MFD_HUGETLB)
	if err != nil {
		return allowed(err, unix.ENOMEM)
	}
	return unix.Close(fd)
}

// queueSignals queues signals for a thread that ends then, with all that is queued for it.
func queueSignals() error {
	return onThread(func() error {
		const signal = 63
		var blocked unix.Sigset_t
		blocked.Val[0] = 1 << (signal - 1)
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &blocked, nil); err != nil {
			return err
		}
		// siginfo_t: number, error, code SI_QUEUE, and what the receiver gets.
		information := [32]int32{signal, 0, -1}
		for range manySignals {
			_, _, errno := unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(unix.Getpid()), uintptr(unix.Gettid()), signal, uintptr(unsafe.Pointer(&information)), 0, 0)
			if errno != 0 {
				return errno
			}
		}
		return nil
	})
}

// timers makes timers that are never set, and deletes them.
func timers() (err error) {
	// struct sigevent: a value, a signal, SIGEV_NONE.
	event := [16]int32{0, 0, 0, 1}
	var made []int32
	for range manySignals {
		var id int32
		if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id))); errno != 0 {
			err = errno
			break
		}
		made = append(made, id)
	}
	for _, id := range made {
		err = errors.Join(err, call(unix.SYS_TIMER_DELETE, uintptr(id)))
	}
	return err
}

// sendDescriptors sends descriptors that are not received.
func sendDescriptors() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(unix.Close(pair[0]), unix.Close(pair[1])) }()
	const most = 253 // SCM_MAX_FD, of one message
	var descriptors [most]int
	rights := unix.UnixRights(descriptors[:]...)
	for range manyFiles/2/most + 1 {
		if err := unix.Sendmsg(pair[0], []byte{0}, rights, nil, 0); err != nil {
			return err
		}
	}
	return nil
}

// watch watches descriptors by epoll.
func watch() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	for range manyWatches {
		watched, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(watched) }()
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, watched, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
			return err
		}
	}
	return nil
}

// pipes makes pipes.
func pipes() error {
	for range manyPipes {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		defer func() { _ = errors.Join(unix.Close(ends[0]), unix.Close(ends[1])) }()
	}
	return nil
}
