package intruder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

func files() []Attempt {
	return []Attempt{
		{Name: "secrets", What: "read files of root's, such as /etc/shadow", By: "files user", try: func(*Settings) error {
			return anyOf([]string{"/etc/shadow", "/root", "/etc/ssl/private"}, read)
		}},
		{Name: "system-files", What: "add files to /etc, /usr, /root and /var", By: "files user", try: func(*Settings) error {
			return anyOf([]string{"/etc", "/etc/cron.d", "/usr/bin", "/usr/lib", "/root", "/var/lib", "/var/spool/cron", "/opt", "/"}, createUnlinked)
		}},
		{Name: "by-handle", What: "open a file by its handle, past the directories above it", By: "capabilities systemCalls", Optional: true, try: byHandle},
		{Name: "raw-disk", What: "open a disk", By: "files user", Optional: true, try: func(*Settings) error {
			return anyOf(disks(), func(d disk) error { return openFor("/dev/"+d.name, unix.O_RDONLY) })
		}},
		{Name: "mknod", What: "make a device node of a disk or of the memory", By: "capabilities files", try: mknod},
		{Name: "physical-memory", What: "open /dev/mem, /dev/kmem, /dev/port or /proc/kcore", By: "files user", Optional: true, try: opens("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore")},
		{Name: "other-devices", What: "open other device nodes (KVM, FUSE, MSR, TUN, VFIO, loop, input, consoles)", By: "files", try: opens(
			"/dev/kvm", "/dev/fuse", "/dev/cpu/0/msr", "/dev/net/tun", "/dev/vfio/vfio", "/dev/loop-control", "/dev/uinput", "/dev/tty0", "/dev/console",
			"/dev/hwrng", "/dev/btrfs-control", "/dev/cpu_dma_latency", "/dev/userfaultfd", "/dev/autofs",
		)},
		{Name: "ioctl", What: "make ioctls on a device node that it may open but has not declared", By: "ioctls", try: func(*Settings) error {
			return onDevice("/dev/urandom", func(fd int) error {
				_, err := unix.IoctlGetInt(fd, unix.RNDGETENTCNT)
				return err
			})
		}},
		{Name: "sysctl", What: "change the kernel's settings in /proc/sys, such as core_pattern", By: "files user", try: opensForWriting(
			"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sys/fs/file-max",
		)},
		{Name: "sysfs", What: "write to sysfs outside of its devices, such as to unbind a driver", By: "files user", try: func(*Settings) error {
			return anyOf([]string{"/sys/bus/platform/drivers_autoprobe", "/sys/bus/pci/drivers_autoprobe", "/sys/kernel/uevent_helper"}, func(path string) error {
				return openFor(path, unix.O_WRONLY)
			})
		}},
		{Name: "sysrq", What: "open /proc/sysrq-trigger for writing", By: "files user", Optional: true, try: opensForWriting("/proc/sysrq-trigger")},
		{Name: "tracing", What: "read the kernel's debugging and tracing files", By: "files user", Optional: true, try: func(*Settings) error {
			return anyOf([]string{"/sys/kernel/debug", "/sys/kernel/tracing"}, read)
		}},
		{Name: "large-file", What: "make a file of 5 GB", By: "limits", try: func(*Settings) error {
			return inWritable(func(file *os.File) error { return file.Truncate(5 << 30) }) // without a block on the disk
		}},
		{Name: "fill-disk", What: "fill the file system of its sockets", By: "agent", Instead: "a backend with more than 32 files or 128 KiB there is ended", try: func(*Settings) error {
			return inWritable(func(file *os.File) error {
				_, err := file.Write(make([]byte, 1<<20))
				return err
			})
		}},
	}
}

func opens(paths ...string) func(*Settings) error {
	return func(*Settings) error {
		return anyOf(paths, func(path string) error { return openFor(path, unix.O_RDONLY) })
	}
}

func opensForWriting(paths ...string) func(*Settings) error {
	return func(*Settings) error {
		return anyOf(paths, func(path string) error { return openFor(path, unix.O_WRONLY) })
	}
}

func onDevice(path string, f func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(f(fd), unix.Close(fd))
}

// createUnlinked makes a file without a name in a directory.
func createUnlinked(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// byHandle needs CAP_DAC_READ_SEARCH, a file system with handles, and any directory of it to begin with.
func byHandle(*Settings) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/etc/shadow", 0)
	if err != nil {
		return err
	}
	return anyOf([]string{"/", "/usr", ownDir()}, func(dir string) error {
		at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(at) }()
		fd, err := unix.OpenByHandleAt(at, handle, unix.O_RDONLY)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	})
}

// disk is a block device of the machine.
type disk struct {
	name   string
	number int
}

// disks are those that the process sees, and common ones.
func disks() []disk {
	all := []disk{{"sda", 8 << 8}, {"vda", 254 << 8}, {"nvme0n1", 259 << 8}, {"loop0", 7 << 8}}
	paths, _ := filepath.Glob("/sys/block/*/dev")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var major, minor uint32
		if _, err := fmt.Sscanf(strings.TrimSpace(string(text)), "%d:%d", &major, &minor); err == nil {
			all = append(all, disk{filepath.Base(filepath.Dir(path)), int(unix.Mkdev(major, minor))})
		}
	}
	return all
}

// ownDir is the directory in which it may make files.
func ownDir() string { return os.Getenv(backendplugin.SocketDirKey) }

// mknod succeeds if it could make a node, or could open it.
func mknod(*Settings) error {
	path := filepath.Join(ownDir(), "node")
	return anyOf(append(disks(), disk{"mem", int(unix.Mkdev(1, 1))}), func(d disk) error {
		mode := uint32(unix.S_IFBLK)
		if d.name == "mem" {
			mode = unix.S_IFCHR
		}
		if err := unix.Mknod(path, mode|0o600, d.number); err != nil {
			return err
		}
		return os.Remove(path)
	})
}

// inWritable calls f with a file in the first directory in which it can make one, and removes the file.
func inWritable(f func(*os.File) error) error {
	return anyOf([]string{ownDir(), "/dev/shm", "/tmp", "/var/tmp"}, func(dir string) error {
		path := filepath.Join(dir, "intruder")
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		return errors.Join(f(file), file.Close(), os.Remove(path))
	})
}
