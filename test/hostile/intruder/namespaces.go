package intruder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func namespaces() []Attempt {
	return []Attempt{
		plain("user-namespace", "make a user namespace, in which it is root", "systemCalls", userNamespace),
		plain("namespaces", "make a mount, network, IPC, UTS, cgroup or PID namespace", "capabilities systemCalls", func() error {
			return anyOf([]int{
				unix.CLONE_NEWNS, unix.CLONE_NEWNET, unix.CLONE_NEWIPC, unix.CLONE_NEWUTS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWPID,
			}, func(flags int) error {
				return onThread(func() error { return unix.Unshare(flags) })
			})
		}),
		{Name: "enter-namespace", What: "enter a namespace of another process", By: "capabilities systemCalls", try: func(s *Settings) error {
			return anyOf(append(s.processes(), 1), func(pid int) error {
				return anyOf([]string{"mnt", "net", "ipc", "uts", "pid", "cgroup", "user"}, func(kind string) error { return enter(pid, kind) })
			})
		}},
		plain("chroot", "change its root directory", "capabilities", func() error { return onThread(func() error { return unix.Chroot("/") }) }),
		plain("pivot-root", "exchange the root of the mount tree", "capabilities systemCalls", func() error {
			return allowed(unix.PivotRoot("/nonexistent", "/nonexistent"), unix.ENOENT)
		}),
		plain("mount", "mount a file system", "capabilities files systemCalls", func() error {
			dir := filepath.Join(ownDir(), "mount")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			err := unix.Mount("none", dir, "tmpfs", 0, "size=4k")
			if err == nil {
				err = unix.Unmount(dir, unix.MNT_DETACH)
			}
			return errors.Join(err, os.Remove(dir))
		}),
		plain("new-mount", "mount a file system by the newer calls (fsopen, open_tree)", "capabilities systemCalls", func() error {
			fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
			if err == nil {
				return unix.Close(fd)
			}
			if fd, err = unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err == nil {
				return unix.Close(fd)
			}
			return err
		}),
		{Name: "unmount", What: "unmount what covers the directories of kubelet and the agent", By: "capabilities systemCalls", try: func(s *Settings) error {
			return anyOf([]string{s.Kubelet, s.CDI, s.State, filepath.Dir(s.Token), "/proc"}, func(path string) error {
				// It marks the mount, and the next use removes the mark.
				return allowed(unix.Unmount(path, unix.MNT_EXPIRE), unix.EAGAIN, unix.EBUSY, unix.EINVAL)
			})
		}},
		{Name: "host-root", What: "read the node's files through /proc/1/root", By: "files user", Optional: true, try: func(*Settings) error { return read("/proc/1/root/etc") }},
	}
}

// userNamespace succeeds if one of two ways is open.
func userNamespace() error {
	if err := start("nothing", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}); err == nil {
		return nil
	}
	// A filter of system calls cannot see the flags of clone3. These two contradict each other.
	arguments := [11]uint64{unix.CLONE_NEWUSER | unix.CLONE_FS}
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&arguments)), unsafe.Sizeof(arguments), 0)
	return allowed(failure(errno), unix.EINVAL)
}

// enter enters a namespace by a pidfd, else by the namespace's file, with a thread that ends then.
func enter(pid int, kind string) error {
	flags := map[string]int{
		"mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "pid": unix.CLONE_NEWPID,
		"cgroup": unix.CLONE_NEWCGROUP, "user": unix.CLONE_NEWUSER,
	}[kind]
	set := func(fd int) error {
		return onThread(func() error {
			if err := unix.Unshare(unix.CLONE_FS); err != nil { // which a mount namespace demands
				return fmt.Errorf("unshare: %w", err)
			}
			return unix.Setns(fd, flags)
		})
	}
	if err := withPidfd(pid, set); err == nil {
		return nil
	}
	fd, err := unix.Open(proc(pid, "ns/"+kind), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(set(fd), unix.Close(fd))
}
