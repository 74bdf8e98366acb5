package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// limits bounds what the process may use. A limit is never raised.
func (s *shim) limits() {
	var failed []error
	for _, limit := range []struct {
		name     string
		resource int
		most     uint64
	}{
		{"core", unix.RLIMIT_CORE, 0},
		// The most devices of a backend, with some files each.
		{"nofile", unix.RLIMIT_NOFILE, 16 << 10},
		{"memlock", unix.RLIMIT_MEMLOCK, 64 << 20},
		// Of all processes of its user, with POSIX timers (getrlimit(2)). Go and C libraries queue none.
		{"sigpending", unix.RLIMIT_SIGPENDING, 1 << 10},
		// More than the files that an FPGA is programmed with.
		{"fsize", unix.RLIMIT_FSIZE, 4 << 30},
		// Of all processes of its user: root's are not counted.
		{"nproc", unix.RLIMIT_NPROC, s.PIDs},
	} {
		if limit.most == 0 && limit.resource == unix.RLIMIT_NPROC {
			continue
		}
		var now unix.Rlimit
		err := unix.Getrlimit(limit.resource, &now)
		if err == nil {
			now.Max = min(now.Max, limit.most)
			now.Cur = min(now.Cur, now.Max)
			err = unix.Setrlimit(limit.resource, &now)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", limit.name, err))
		}
	}
	s.measured(Limits, "", errors.Join(failed...))
}
