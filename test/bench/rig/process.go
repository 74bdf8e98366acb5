package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is what is measured of a node, with the limit of its idle CPU in percent of
// a core; 0 for none.
type Process struct {
	Name string
	PID  int
	CPU  float64
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

// Anonymous is RssAnon of proc_pid_status(5), in MB: the memory that a process shares
// with no file.
func Anonymous(pid int) (float64, error) {
	kibibytes, err := statusNumber(pid, "RssAnon:")
	return float64(kibibytes) * 1024 / 1e6, err
}
