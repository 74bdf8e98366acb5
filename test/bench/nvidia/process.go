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

// processes are what is measured, and the limit of its idle CPU in percent.
func (n *node) processes() []process {
	return []process{
		{"backend", n.backend, 0.1, 25},
		{"core", n.agent.Process.Pid, 0, 0},
	}
}

type process struct {
	name string
	pid  int
	// cpu is the limit in percent of a core, memory in MB; 0 for none.
	cpu, memory float64
}

// rest leaves the node alone, with the driver's events and the usual rescans and
// heartbeats, and says what that costs.
func (n *node) rest(idle time.Duration) ([]figure, error) {
	var before []time.Duration
	for _, p := range n.processes() {
		used, err := cpu(p.pid)
		if err != nil {
			return nil, err
		}
		before = append(before, used)
	}
	<-time.After(idle)
	var figures []figure
	for i, p := range n.processes() {
		after, err := cpu(p.pid)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{
			what: fmt.Sprintf("idle CPU of the %s, %d replicas", p.name, n.replicas), unit: "%", limit: p.cpu,
			value: 100 * (after - before[i]).Seconds() / idle.Seconds(), note: "of a core, over " + idle.String(),
		})
	}
	memory, err := n.memory(fmt.Sprintf("fresh, %d replicas", n.replicas))
	return append(figures, memory...), err
}

// memory says what the processes have of it.
func (n *node) memory(when string) ([]figure, error) {
	var figures []figure
	for _, p := range n.processes() {
		all, library, anonymous, err := resident(p.pid)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{
			what: fmt.Sprintf("RSS of the %s, %s", p.name, when), unit: "MB", limit: p.memory, value: megabytes(all - library),
			note: fmt.Sprintf("of it anonymous %.1f MB; besides %.1f MB of %s", megabytes(anonymous), megabytes(library), nvml.LibraryName),
		})
	}
	return figures, nil
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
