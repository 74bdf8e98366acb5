package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/nvml"
)

// rest leaves the node alone, with the driver's events and the usual rescans and
// heartbeats, and prints what that costs.
func (n *node) rest(idle time.Duration) error {
	processes := []struct {
		name string
		pid  int
	}{{"backend", n.backend}, {"core", n.agent.Process.Pid}}
	var before [2]time.Duration
	for i, p := range processes {
		var err error
		if before[i], err = cpu(p.pid); err != nil {
			return err
		}
	}
	<-time.After(idle)
	for i, p := range processes {
		after, err := cpu(p.pid)
		if err != nil {
			return err
		}
		all, library, anonymous, err := resident(p.pid)
		if err != nil {
			return err
		}
		fmt.Printf("  %-8s idle CPU %.3f %% of a core   RSS %.1f MB, of it anonymous %.1f MB; besides %.1f MB of %s\n", p.name,
			100*(after-before[i]).Seconds()/idle.Seconds(), megabytes(all-library), megabytes(anonymous), megabytes(library), nvml.LibraryName)
	}
	return nil
}

func megabytes(kilobytes int) float64 { return float64(kilobytes) / 1024 }

// cpu is what a process has used so far: its CPU clock, as in
// clock_getcpuclockid(3).
func cpu(pid int) (time.Duration, error) {
	var used unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|2, &used); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// resident is the resident memory of a process in KiB, from proc_pid_smaps(5): all
// of it, what of it is mapped from NVML's library, and what is anonymous.
func resident(pid int) (all, library, anonymous int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	ofLibrary := false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			ofLibrary = strings.HasSuffix(fields[len(fields)-1], nvml.LibraryName)
		case len(fields) >= 2 && (fields[0] == "Rss:" || fields[0] == "Anonymous:"):
			amount, err := strconv.Atoi(fields[1])
			if err != nil {
				return 0, 0, 0, fmt.Errorf("read /proc/%d/smaps: %w", pid, err)
			}
			switch {
			case fields[0] == "Anonymous:":
				anonymous += amount
			case ofLibrary:
				all, library = all+amount, library+amount
			default:
				all += amount
			}
		}
	}
	return all, library, anonymous, nil
}
