package trap

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is that of a process or thread: the kernel reads and writes it for us, as it
// does itself with copy_from_user and copy_to_user, so that a bad address is an answer.
type Memory struct {
	PID int
	// Valid says whether it is still there, so that no other has its number.
	Valid func() bool
}

// Read fills b from the address on: 0, EFAULT, or ESRCH.
func (m Memory) Read(b []byte, address uint64) unix.Errno {
	return m.copy(b, address, unix.ProcessVMReadv)
}

// Write is the other way round.
func (m Memory) Write(b []byte, address uint64) unix.Errno {
	return m.copy(b, address, unix.ProcessVMWritev)
}

func (m Memory) copy(b []byte, address uint64, move func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) unix.Errno {
	local := []unix.Iovec{{Base: unsafe.SliceData(b)}}
	local[0].SetLen(len(b))
	n, err := move(m.PID, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	runtime.KeepAlive(b)
	var errno unix.Errno
	switch {
	case !m.Valid():
		return unix.ESRCH
	case n == len(b):
		return 0
	case errors.As(err, &errno) && errno != unix.EFAULT:
		return errno // of our own rights
	}
	return unix.EFAULT
}

// Text is a text that ends with a zero byte, a path at most.
func (m Memory) Text(address uint64) (string, bool) {
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
