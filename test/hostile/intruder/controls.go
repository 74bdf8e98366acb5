package intruder

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Controls are actions that every backend may do, in any sandbox. If they fail, the refusals of attempts show
// nothing.
func Controls() []Attempt {
	return []Attempt{
		{Name: "own-device", What: "open the device node that it declares, and make ioctls", try: func(s *Settings) error {
			return onDevice(s.OwnNode, func(fd int) error {
				// /dev/full has none; Landlock refuses with EACCES.
				_, err := unix.IoctlGetInt(fd, unix.RNDGETENTCNT)
				return allowed(err, unix.ENOTTY)
			})
		}},
		{Name: "own-directory", What: "make files and sockets in its own directory", try: func(*Settings) error {
			return errors.Join(create(filepath.Join(ownDir(), "file"), "text"), makeSocket(filepath.Join(ownDir(), "socket")))
		}},
		{Name: "own-sysfs", What: "read the devices in sysfs", try: func(*Settings) error { return read("/sys/devices") }},
		{Name: "own-events", What: "receive the kernel's device events", try: func(*Settings) error {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
			if err != nil {
				return err
			}
			return errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}), unix.Close(fd))
		}},
		{Name: "own-program", What: "run its own program and threads", try: func(*Settings) error { return start("nothing", nil) }},
		{Name: "own-process", What: "read its own process's files", try: func(*Settings) error {
			_, err := os.ReadFile("/proc/self/status")
			return err
		}},
	}
}
