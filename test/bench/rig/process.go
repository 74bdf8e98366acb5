package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is what is measured of a node, with the limits of its idle CPU in percent of
// a core and of its memory in MB; 0 for none.
type Process struct {
	Name        string
	PID         int
	CPU, Memory float64
}

// Idle measures the CPU of processes to which nothing happens but the usual rescans and
// heartbeats; when is part of the figures' names.
func Idle(processes []Process, idle time.Duration, when string) ([]Figure, error) {
	var before []time.Duration
	for _, p := range processes {
		used, err := CPU(p.PID)
		if err != nil {
			return nil, err
		}
		before = append(before, used)
	}
	<-time.After(idle)
	var figures []Figure
	for i, p := range processes {
		after, err := CPU(p.PID)
		if err != nil {
			return nil, err
		}
		figures = append(figures, Figure{
			What: fmt.Sprintf("idle CPU of the %s, %s", p.Name, when), Unit: "%", Limit: p.CPU,
			Value: 100 * (after - before[i]).Seconds() / idle.Seconds(), Note: "of a core, over " + idle.String(),
		})
	}
	return figures, nil
}

// Memory is the resident memory of processes, without what is mapped from a library (or
// another file) if one is named.
func Memory(processes []Process, when, library string) ([]Figure, error) {
	var figures []Figure
	for _, p := range processes {
		all, mapped, anonymous, err := resident(p.PID, library)
		if err != nil {
			return nil, err
		}
		note := fmt.Sprintf("of it anonymous %.1f MB", megabytes(anonymous))
		if library != "" {
			note += fmt.Sprintf("; besides %.1f MB of %s", megabytes(mapped), library)
		}
		figures = append(figures, Figure{
			What: fmt.Sprintf("RSS of the %s, %s", p.Name, when), Unit: "MB", Limit: p.Memory, Value: megabytes(all - mapped), Note: note,
		})
	}
	return figures, nil
}

func megabytes(kilobytes int) float64 { return float64(kilobytes) / 1024 }

// CPU is what a process has used so far: its CPU clock, as in
// clock_getcpuclockid(3).
func CPU(pid int) (time.Duration, error) {
	var used unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|2, &used); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// PeakMemory is the most that a process had resident at a time, in MB: VmHWM of
// proc_pid_status(5).
func PeakMemory(pid int) (float64, error) {
	kibibytes, err := statusNumber(pid, "VmHWM:")
	return megabytes(kibibytes), err
}

// statusNumber is a number of proc_pid_status(5), which threads have, too.
func statusNumber(id int, key string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no %s", id, key)
}

// resident is the resident memory of a process in KiB, from proc_pid_smaps(5): all
// of it, what of it is mapped from a library, and what is anonymous.
func resident(pid int, library string) (all, mapped, anonymous int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, 0, 0, err
	}
	ofLibrary := false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			ofLibrary = library != "" && strings.HasSuffix(fields[len(fields)-1], library)
		case len(fields) >= 2 && (fields[0] == "Rss:" || fields[0] == "Anonymous:"):
			amount, err := strconv.Atoi(fields[1])
			if err != nil {
				return 0, 0, 0, fmt.Errorf("read /proc/%d/smaps: %w", pid, err)
			}
			switch {
			case fields[0] == "Anonymous:":
				anonymous += amount
			case ofLibrary:
				all, mapped = all+amount, mapped+amount
			default:
				all += amount
			}
		}
	}
	return all, mapped, anonymous, nil
}

// Anonymous is RssAnon of proc_pid_status(5), in MB: the memory that a process shares
// with no file.
func Anonymous(pid int) (float64, error) {
	kibibytes, err := statusNumber(pid, "RssAnon:")
	return float64(kibibytes) * 1024 / 1e6, err
}
