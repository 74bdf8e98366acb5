package smi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// request is AMDKFD_IOC_SMI_EVENTS: _IOWR('K', 0x1F, struct kfd_ioctl_smi_events_args).
const request = 0xc0084b1f

// arguments is struct kfd_ioctl_smi_events_args: gpuid in, anon_fd out.
type arguments struct{ gpuID, file uint32 }

// Node is KFD's device node, the real [Source].
type Node struct {
	// Path is /dev/kfd, or where a container has it.
	Path string

	// call is the ioctl; nil for the real one.
	call func(fd int, a *arguments) error
}

// Open implements [Source]. The node itself is open only during the call. Errors name what an
// operator can do; fs.ErrNotExist means that the driver is not loaded or too old (before
// Linux 5.8).
func (n Node) Open(gpuID uint32, mask uint64) (io.ReadCloser, error) {
	fd, err := unix.Open(n.Path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(&fs.PathError{Op: "open", Path: n.Path, Err: err})
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written to it
	call := n.call
	if call == nil {
		call = ioctl
	}
	a := arguments{gpuID: gpuID}
	if err := call(fd, &a); err != nil {
		return nil, explain(&fs.PathError{Op: "AMDKFD_IOC_SMI_EVENTS", Path: n.Path, Err: err})
	}
	// The driver's file has neither flag. Reading it never blocks, whatever the flags,
	// but only with this one does the runtime wait for events without a thread.
	unix.CloseOnExec(int(a.file))
	if err := unix.SetNonblock(int(a.file), true); err != nil {
		_ = unix.Close(int(a.file))
		return nil, fmt.Errorf("KFD's events: %w", err)
	}
	file := os.NewFile(uintptr(a.file), "KFD's events")
	if _, err := file.Write(binary.NativeEndian.AppendUint64(nil, mask)); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("ask KFD for events: %w", err)
	}
	return file, nil
}

// ioctl calls the driver.
func ioctl(fd int, a *arguments) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a)))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// explain adds what to do about an error.
func explain(err error) error {
	for cause, what := range map[error]string{
		fs.ErrNotExist:   "is the amdgpu driver loaded, and the node in this container?",
		fs.ErrPermission: "this process has no permission to use the node",
		unix.EINVAL:      "KFD does not have this GPU (any more)",
		unix.ENOTTY:      "the kernel has no such events, or this is not KFD's node",
	} {
		if errors.Is(err, cause) {
			return fmt.Errorf("%w (%s)", err, what)
		}
	}
	return err
}
