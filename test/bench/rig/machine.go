package rig

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine says what this one is and how busy: cores, kernel, and the load of the last
// minute, of proc_loadavg(5).
func Machine() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("uname: %w", err)
	}
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	load, _, _ := strings.Cut(string(text), " ")
	return fmt.Sprintf("%d cores, Linux %s, %s; load %s at the start",
		runtime.NumCPU(), unix.ByteSliceToString(name.Release[:]), runtime.Version(), load), nil
}
