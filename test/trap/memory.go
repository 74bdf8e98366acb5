package trap

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory is that of a thread: the kernel reads it for us, as it does itself with
// copy_from_user, so that a bad address is an answer.
type memory struct {
	thread int
	waits  func() bool
}

// Read fills b from the address on: 0, EFAULT, or ESRCH.
func (m memory) Read(b []byte, address uint64) unix.Errno {
	local := []unix.Iovec{{Base: unsafe.SliceData(b)}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(m.thread, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	runtime.KeepAlive(b)
	var errno unix.Errno
	switch {
	case !m.waits():
		return unix.ESRCH
	case n == len(b):
		return 0
	case errors.As(err, &errno) && errno != unix.EFAULT:
		return errno // of our own rights
	}
	return unix.EFAULT
}

// Text is a text that ends with a zero byte, a path at most.
func (m memory) Text(address uint64) (string, bool) {
	var all []byte
	page := uint64(os.Getpagesize())
	for len(all) < unix.PathMax {
		part := make([]byte, page-address%page) // the next page may be none
		if m.Read(part, address) != 0 {
			return "", false
		}
		if before, _, ok := bytes.Cut(part, []byte{0}); ok {
			return string(append(all, before...)), true
		}
		all, address = append(all, part...), address+uint64(len(part))
	}
	return "", false
}
